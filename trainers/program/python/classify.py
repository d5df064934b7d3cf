

def main(files):
    from PIL import Image

    model = load()
    dtype = next(model.parameters()).dtype
    for file in files:
        with torch.no_grad(), Image.open(file) as image:
            scores = model(preprocess(image).to(dtype)).softmax(1)[0]
        best = int(scores.argmax())
        print(f"{file}\t{CONFIG['classes'][best]}\t{scores[best]:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
