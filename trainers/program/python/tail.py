

def load(folder=HERE):
    """The network with its weights, in evaluation mode."""
    from safetensors.torch import load_file

    weights = load_file(Path(folder) / "model.safetensors")
    model = Model().to(next(value.dtype for value in weights.values() if value.is_floating_point()))
    model.load_state_dict(weights, strict=True)
    return model.eval()


def preprocess(image):
    """A PIL image of any size -> [1, 3, S, S], as in training: the middle of the image, resized where it has
    another size than the training images, centred on black where the network takes larger ones."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image).convert("RGB")
    size, (height, width) = CONFIG["input_size"], CONFIG["target_size"]
    if image.size != (width, height):
        scale = min(image.width / width, image.height / height)
        box_width, box_height = round(width * scale), round(height * scale)
        left, top = (image.width - box_width) // 2, (image.height - box_height) // 2
        image = image.crop((left, top, left + box_width, top + box_height)).resize((width, height), Image.BILINEAR)
    canvas = Image.new("RGB", (size, size))
    canvas.paste(image, ((size - width) // 2, (size - height) // 2))
    pixels = torch.frombuffer(bytearray(canvas.tobytes()), dtype=torch.uint8).view(1, size, size, 3)
    return (pixels.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
