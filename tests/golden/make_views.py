"""Makes views.safetensors: TensorFlow's own results for every step of an augmented view.

    pip install tensorflow-cpu==2.21.0 safetensors && python make_views.py

The steps are TensorFlow operations; what the published preprocessing adds to them (the order, the kernel of the
motion blur, the centre of rotation) is written out here.
"""
import math

import numpy as np
import tensorflow as tf
from safetensors.numpy import save_file

HEIGHT, WIDTH = 84, 16
rng = np.random.default_rng(5)
y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
smooth = np.stack([np.sin(x / 3 + c) * np.cos(y / 7 - c) for c in range(4)], -1) * 0.3 + 0.5
image = np.clip(smooth + rng.normal(0, 0.15, smooth.shape), 0, 1).astype(np.float32)
# Grey and saturated pixels, where hue and saturation have their corners.
image[0, :4, :3] = [[0.4, 0.4, 0.4], [0, 0, 0], [1, 1, 1], [1, 0, 0]]
image[1, :4, :3] = [[0, 1, 0], [0, 0, 1], [1, 1, 0], [0.5, 0.5, 0.2]]


def depthwise(picture, kernel):
    kernel = np.repeat(np.asarray(kernel, np.float32)[:, :, None, None], picture.shape[-1], 2)
    return tf.nn.depthwise_conv2d(picture[None], kernel, [1, 1, 1, 1], "SAME")[0].numpy()


def rotate(picture, radians, interpolation):
    height, width = picture.shape[:2]
    cos, sin = math.cos(radians), math.sin(radians)
    dx = ((width - 1) - (cos * (width - 1) - sin * (height - 1))) / 2
    dy = ((height - 1) - (sin * (width - 1) + cos * (height - 1))) / 2
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=picture[None], transforms=[[cos, -sin, dx, sin, cos, dy, 0, 0]], output_shape=[height, width],
        fill_value=0.0, interpolation=interpolation, fill_mode="CONSTANT")[0].numpy()


def gaussian(picture, sigma):
    radius = picture.shape[0] // 20 // 2
    line = np.exp(-np.arange(-radius, radius + 1) ** 2 / (2 * sigma ** 2))
    line /= line.sum()
    return depthwise(depthwise(picture, line[None, :]), line[:, None])


def motion(picture, half_length, degrees, lean):
    size = 2 * half_length + 1
    first = (lean + 1) / 2
    kernel = np.zeros((size, size, 1), np.float32)
    kernel[:, half_length, 0] = np.linspace(first, 1 - first, size)
    kernel = rotate(kernel, math.radians(degrees), "NEAREST")[:, :, 0]
    return depthwise(picture, kernel / kernel.sum())


def stretch(picture, top, left, height, width):
    crop = picture[top:top + height, left:left + width]
    return tf.compat.v1.image.resize_bicubic(crop[None], picture.shape[:2])[0].numpy()


def clip(picture):
    return np.clip(picture, 0, 1)


def grey(picture):
    return np.repeat(tf.image.rgb_to_grayscale(picture).numpy(), 3, -1)


out = {"image": image}
out["gaussian"] = gaussian(image, 0.9)
out["motion.3.37.0.3"] = motion(image, 3, 37.0, 0.3)
out["motion.2.200.-1"] = motion(image, 2, 200.0, -1.0)
out["rotation.0.2"] = rotate(image, 0.2, "BILINEAR")
out["stretch.5.3.21.11"] = stretch(image, 5, 3, 21, 11)
out["stretch.0.0.83.15"] = stretch(image, 0, 0, 83, 15)
# Beyond [0, 1] on both sides, as a bicubic stretch leaves it.
wide = (1.4 * image[..., :3] - 0.2).astype(np.float32)
out["brightness.1.3"] = clip(wide * np.float32(1.3))
out["contrast.0.7"] = clip(tf.image.adjust_contrast(wide, 0.7).numpy())
out["saturation.1.4"] = clip(tf.image.adjust_saturation(wide, 1.4).numpy())
out["saturation.0.6"] = clip(tf.image.adjust_saturation(wide, 0.6).numpy())
out["hue.0.1"] = clip(tf.image.adjust_hue(wide, 0.1).numpy())
out["hue.-0.07"] = clip(tf.image.adjust_hue(wide, -0.07).numpy())
out["grey"] = grey(wide)

whole = motion(gaussian(image, 0.7), 1, 310.0, -0.4)
whole = stretch(rotate(whole, -0.15, "BILINEAR"), 10, 2, 60, 12)[:, ::-1]
colours = clip(tf.image.adjust_hue(whole[..., :3], 0.08).numpy())
colours = clip(colours * np.float32(0.8))
colours = clip(tf.image.adjust_saturation(colours, 1.3).numpy())
colours = clip(tf.image.adjust_contrast(colours, 1.2).numpy())
out["whole"] = clip(np.concatenate([colours, whole[..., 3:]], -1))
out["whole.grey"] = clip(np.concatenate([grey(colours), whole[..., 3:]], -1))


@tf.function
def boxes(shape, object_box, area, covered, count):
    def one(_):
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, bounding_boxes=object_box, min_object_covered=covered, aspect_ratio_range=(0.75, 1.33),
            area_range=area, max_attempts=100, use_image_if_no_bounding_boxes=True)
        return tf.concat([begin[:2], size[:2]], 0)
    return tf.map_fn(one, tf.range(count), fn_output_signature=tf.int32, parallel_iterations=1)


tf.random.set_seed(1)
everything = [0.0, 0.0, 1.0, 1.0]
for name, shape, box, area, covered in [
    ("rooms", (120, 160, 4), [30 / 120, 100 / 160, 90 / 120, 130 / 160], (0.2, 1.0), 0.5),
    ("saycam", (224, 224, 3), everything, (0.1, 1.0), 0.5),
    ("omniglot", (28, 28, 1), everything, (0.08, 1.0), 0.1),
    ("imagenet", (84, 84, 3), everything, (0.08, 1.0), 0.1),
]:
    drawn = boxes(tf.constant(shape), tf.reshape(tf.constant(box), [1, 1, 4]), area, covered, 100_000).numpy()
    # Means, standard deviations, least and greatest of top, left, height, width; the share of whole images.
    whole = (drawn[:, 2:] == np.array(shape[:2])).all(1).mean(keepdims=True)
    out[f"boxes.{name}"] = np.concatenate([drawn.mean(0), drawn.std(0), drawn.min(0), drawn.max(0), whole])

save_file({k: np.ascontiguousarray(v, dtype=np.float32) for k, v in out.items()}, "views.safetensors")
