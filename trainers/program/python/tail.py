

def load(folder=HERE):
    """Returns the network with its weights, in evaluation mode."""
    from safetensors.torch import load_file

    weights = load_file(Path(folder) / "model.safetensors")
    model = Model().to(next(value.dtype for value in weights.values() if value.is_floating_point()))
    model.load_state_dict(weights, strict=True)
    return model.eval()


def example(n=1):
    """Returns inputs for n images, all zeros, as example inputs for exporters."""
    images = torch.zeros(n, 3, CONFIG["input_size"], CONFIG["input_size"])
    return images, *(torch.zeros(n, dtype=torch.int64) for _ in INPUTS[1:])


# For torch.onnx.export: names of inputs and outputs, and n as a dynamic size.
ONNX = {"input_names": list(INPUTS), "output_names": ["outputs"],
        "dynamic_axes": {name: {0: "n"} for name in (*INPUTS, "outputs")}}


def shown(width, height):
    """Returns the shown part of an image, as for test images: left, top, right, bottom."""
    shape_height, shape_width = CONFIG["shape"]
    box_width, box_height = width, height
    if CONFIG["part"] != 1:
        box_width = box_height = max(1, round(CONFIG["part"] * min(width, height)))
    elif height * shape_width > width * shape_height:
        box_height = min(height, max(1, (2 * width * shape_height + shape_width) // (2 * shape_width)))
    else:
        box_width = min(width, max(1, (2 * height * shape_width + shape_height) // (2 * shape_height)))
    left, top = (width - box_width) // 2, (height - box_height) // 2
    return left, top, left + box_width, top + box_height


def to_rgb(image):
    """Converts a PIL image of any mode to RGB. 16-bit grey is reduced to its high byte, which convert("RGB") clips."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        high = 0 if image.mode == "I;16B" else 1
        image = Image.frombytes("L", image.size, image.tobytes()[high::2])
    elif image.mode == "I":  # of PNG files, before Pillow 10.3
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    return image.convert("RGB")


def upright(image):
    """Turns a PIL image as its file says, if the training images were turned; otherwise returns it as stored."""
    from PIL import Image, ImageOps

    if CONFIG.get("upright", True):
        return ImageOps.exif_transpose(image)
    if image.format != "TIFF":
        return image
    # Pillow turns TIFF files itself when it loads them: turn them back.
    flip = Image.Transpose
    back = {2: flip.FLIP_LEFT_RIGHT, 3: flip.ROTATE_180, 4: flip.FLIP_TOP_BOTTOM, 5: flip.TRANSPOSE, 6: flip.ROTATE_90,
            7: flip.TRANSVERSE, 8: flip.ROTATE_270}.get(image.getexif().get(274, 1))
    image.load()
    return image if back is None else image.transpose(back)


def preprocess(image):
    """Converts a PIL image of any size to [1, 3, S, S], as in training: the middle of the image, resized if its
    size is not that of the training images, and centred on black if the network takes larger ones."""
    from PIL import Image

    image = to_rgb(upright(image))
    size, (height, width) = CONFIG["input_size"], CONFIG["target_size"]
    image = image.crop(shown(*image.size)).resize((width, height), Image.BILINEAR)
    canvas = Image.new("RGB", (size, size))
    canvas.paste(image, ((size - width) // 2, (size - height) // 2))
    pixels = torch.frombuffer(bytearray(canvas.tobytes()), dtype=torch.uint8).view(1, size, size, 3)
    return (pixels.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
