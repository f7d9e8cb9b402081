"""An image classifier in ONNX Runtime on an OpenCL device: classes of an image, and the latency beside the CPU's.

    pip install onnxruntime onnxruntime-ep-ocl pillow
    python examples/onnxruntime_classify.py model.onnx image.jpg

The model takes one image, N x 3 x H x W, as classifiers that were trained on ImageNet do. Without an image random
numbers are classified.
"""

import argparse
import time

import numpy
import onnxruntime
import onnxruntime_ep_ocl


def load(path, height, width):
    """The image in the middle of the picture, normalised as ImageNet's are."""
    from PIL import Image

    picture = Image.open(path).convert("RGB")
    scale = max(height / picture.height, width / picture.width) * 1.14
    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    pixels = numpy.asarray(picture.crop((left, top, left + width, top + height)), numpy.float32) / 255
    pixels = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    return pixels.transpose(2, 0, 1)[None].astype(numpy.float32)


def milliseconds(session, feed, runs):
    """The median of `runs` runs, behind one that compiles kernels."""
    session.run(None, feed)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("image", nargs="?")
    parser.add_argument("--device", type=int, default=0, help="which OpenCL device (default: the first)")
    parser.add_argument("--size", type=int, default=224, help="of the image, where the model leaves it open")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()

    devices = onnxruntime_ep_ocl.devices()
    if not devices:
        raise SystemExit("there is no OpenCL device: see python -m torch_ocl, or clinfo")
    device = devices[options.device]
    print(f"{device.ep_metadata['ocl_name']} ({device.ep_metadata['ocl_platform']})")

    how = onnxruntime.SessionOptions()
    how.add_provider_for_devices([device], {})
    session = onnxruntime.InferenceSession(options.model, how)
    taken = session.get_inputs()[0]
    height, width = (size if isinstance(size, int) else options.size for size in taken.shape[2:])
    if options.image:
        image = load(options.image, height, width)
    else:
        image = numpy.random.default_rng(0).normal(size=(1, 3, height, width)).astype(numpy.float32)
    feed = {taken.name: image}

    scores = session.run(None, feed)[0].reshape(-1)
    for index in scores.argsort()[:-6:-1]:
        print(f"class {index}: {scores[index]:.3f}")

    cpu = onnxruntime.InferenceSession(options.model, providers=["CPUExecutionProvider"])
    numpy.testing.assert_allclose(scores, cpu.run(None, feed)[0].reshape(-1), rtol=1e-3, atol=1e-3)
    ours, theirs = milliseconds(session, feed, options.runs), milliseconds(cpu, feed, options.runs)
    print(f"the CPU provider gives the same scores; {ours:.2f} ms, CPU provider {theirs:.2f} ms")


if __name__ == "__main__":
    main()
