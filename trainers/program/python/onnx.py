

def export_onnx(path=HERE / "model.onnx"):
    """Writes the network as ONNX, for any number of images. Returns the largest difference of an output that onnxruntime
    computes, relative to the largest output, or None if onnxruntime is not installed. Needs PyPI's onnx."""
    import warnings

    network = load().float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of traces, and of a newer exporter that needs onnxscript
        torch.onnx.export(network, example(), str(path), dynamo=False, **ONNX)
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    torch.manual_seed(0)
    given = [torch.randn(like.shape) if like.is_floating_point() else torch.randint(0, 2, like.shape) for like in example(3)]
    with torch.no_grad():
        want = network(*given)
    got, = session.run(None, {name: one.numpy() for name, one in zip(INPUTS, given)})
    return float((torch.from_numpy(got) - want).abs().max() / want.abs().max().clamp(min=1))


def write_onnx():
    from importlib.util import find_spec

    if find_spec("onnx") is None:
        sys.exit("model.onnx needs PyPI's onnx beside PyTorch: pip install onnx onnxruntime")
    difference = export_onnx()
    if difference is None:
        print("model.onnx is written; with PyPI's onnxruntime it would be compared, too")
    elif difference > 1e-5:
        sys.exit(f"model.onnx computes something else: onnxruntime differs by {difference:.1e} of the largest output")
    else:
        print(f"model.onnx is written; onnxruntime computes the same to {difference:.1e} of the largest output")


if __name__ == "__main__" and sys.argv[1:] == ["--onnx"]:
    write_onnx()
    sys.exit()
