"""timm: image classifiers made by name, narrowed where the smallest named one is still large."""

from functools import partial

from benchmarks.models.images import classification_loss, digits

from .model import Model

NARROW_VIT = {"embed_dim": 64, "depth": 2, "num_heads": 4, "img_size": 32, "patch_size": 8}

CLASSIFIERS = {  # timm's name: (options, edge of the image)
    "resnet18": ({}, 64),
    "resnet26d": ({}, 64),
    "seresnet18": ({}, 64),
    "efficientnet_b0": ({}, 64),
    "mobilenetv3_small_050": ({}, 64),
    "mobilenetv4_conv_small": ({}, 64),
    "vit_tiny_patch16_224": (NARROW_VIT, 32),
    "deit3_small_patch16_224": (NARROW_VIT, 32),
    "swin_tiny_patch4_window7_224": ({"embed_dim": 32, "depths": (2, 2), "num_heads": (2, 4), "img_size": 56}, 56),
    "swinv2_cr_tiny_224": (
        {"embed_dim": 32, "depths": (2, 2), "num_heads": (2, 4), "img_size": 64, "window_size": 4},
        64,
    ),
    "convnext_atto": ({}, 64),
    "convnextv2_atto": ({}, 64),
    "regnety_002": ({}, 64),
    "ghostnet_050": ({}, 64),
    "mixer_s32_224": ({"img_size": 64}, 64),
    "resnetv2_50": ({"layers": (1, 1, 1, 1), "width_factor": 0.25}, 64),
    "nf_resnet26": ({}, 64),
    "coatnet_nano_rw_224": ({"img_size": 64}, 64),
    "xcit_nano_12_p16_224": ({"depth": 2, "img_size": 64}, 64),
    "poolformer_s12": ({}, 64),
}


def build(name, options):
    import timm

    return timm.create_model(name, pretrained=False, num_classes=10, **options)


def output(network, images, classes):
    return network(images)


def rows():
    quick = {"efficientnet_b0", "convnext_atto"}
    for name, (options, edge) in CLASSIFIERS.items():
        yield Model(
            "timm",
            name,
            partial(build, name, options),
            partial(digits, 4, edge, 3),
            classification_loss,
            output,
            name in quick,
        )
