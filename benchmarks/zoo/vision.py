"""torchvision: classification, segmentation, detection and video."""

from functools import partial

import torch
from torch.nn import functional as F

from benchmarks.models.images import digits, import_torchvision

from .model import Model, randint, randn

CLASSES = 10


def classification_loss(network, images, classes):
    output = network(images)
    if not isinstance(output, torch.Tensor):  # GoogLeNet and Inception: auxiliary classifiers
        return sum(
            weight * F.cross_entropy(part, classes) for weight, part in zip((1.0, 0.4, 0.4), output) if part is not None
        )
    return F.cross_entropy(output, classes)


def first(network, inputs, *rest):
    return network(inputs)


def models():
    return import_torchvision().models


def by_name(name, **options):
    return getattr(models(), name)(weights=None, num_classes=CLASSES, **options)


def vit():
    return models().VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128, num_classes=CLASSES
    )


def swin(version):
    module = models().swin_transformer
    options = (
        {} if version == 1 else {"block": module.SwinTransformerBlockV2, "downsample_layer": module.PatchMergingV2}
    )
    return module.SwinTransformer(
        [4, 4], 32, [2, 2], [2, 4], [4, 4] if version == 1 else [8, 8], num_classes=CLASSES, **options
    )


def convnext():
    module = models().convnext
    return module.ConvNeXt([module.CNBlockConfig(32, 64, 2), module.CNBlockConfig(64, None, 2)], num_classes=CLASSES)


def maxvit():
    return models().MaxVit(input_size=(64, 64), stem_channels=16, partition_size=4, block_channels=[16, 32],
                           block_layers=[1, 1], head_dim=16, stochastic_depth_prob=0.0,
                           num_classes=CLASSES)  # fmt: skip


def resnet(**options):
    return models().ResNet(models().resnet.Bottleneck, [1, 1, 1, 1], num_classes=CLASSES, **options)


def densenet():
    return models().DenseNet(growth_rate=16, block_config=(3, 4, 2), num_init_features=32, num_classes=CLASSES)


CLASSIFIERS = {  # name: (build, edge of the image)
    "densenet": (densenet, 64),
    "efficientnet_b0": (partial(by_name, "efficientnet_b0"), 64),
    "efficientnet_v2_s": (partial(by_name, "efficientnet_v2_s"), 64),
    "convnext": (convnext, 64),
    "vit": (vit, 32),
    "swin": (partial(swin, 1), 64),
    "swin_v2": (partial(swin, 2), 64),
    "maxvit": (maxvit, 64),
    "regnet_y_400mf": (partial(by_name, "regnet_y_400mf"), 64),
    "regnet_x_400mf": (partial(by_name, "regnet_x_400mf"), 64),
    "shufflenet_v2_x0_5": (partial(by_name, "shufflenet_v2_x0_5"), 64),
    "squeezenet1_1": (partial(by_name, "squeezenet1_1"), 64),
    "mnasnet0_5": (partial(by_name, "mnasnet0_5"), 64),
    "mobilenet_v3_small": (partial(by_name, "mobilenet_v3_small"), 64),
    "resnext": (partial(resnet, groups=8, width_per_group=4), 64),
    "wide_resnet": (partial(resnet, width_per_group=128), 64),
    "googlenet": (partial(by_name, "googlenet", init_weights=False), 64),
    "inception_v3": (partial(by_name, "inception_v3", init_weights=False, aux_logits=False), 96),
}


def segmentation_batch(edge=64):
    images, _ = digits(2, edge, seed=5)
    return images, (images[:, 0] > 0).long() * 2 + randint(2, 2, edge, edge, seed=6)


def segmentation_loss(network, images, classes):
    output = network(images)
    loss = F.cross_entropy(output["out"], classes)
    return loss + 0.5 * F.cross_entropy(output["aux"], classes) if "aux" in output else loss


def segmentation(name, **options):
    return getattr(models().segmentation, name)(weights=None, weights_backbone=None, num_classes=4, **options)


SEGMENTATION = {
    "fcn_resnet50": partial(segmentation, "fcn_resnet50", aux_loss=True),
    "deeplabv3_mobilenet_v3_large": partial(segmentation, "deeplabv3_mobilenet_v3_large", aux_loss=True),
    "deeplabv3_resnet50": partial(segmentation, "deeplabv3_resnet50"),
    "lraspp_mobilenet_v3_large": partial(segmentation, "lraspp_mobilenet_v3_large"),
}


def pyramid(channels=32, pool=True):
    """A small ResNet with a feature pyramid over its last three levels."""
    vision = import_torchvision()
    backbone = vision.models.ResNet(vision.models.resnet.BasicBlock, [1, 1, 1, 1])
    extra = (
        vision.ops.feature_pyramid_network.LastLevelMaxPool()
        if pool
        else vision.ops.feature_pyramid_network.LastLevelP6P7(channels, channels)
    )
    layers = {"layer2": "0", "layer3": "1", "layer4": "2"}
    return vision.models.detection.backbone_utils.BackboneWithFPN(backbone, layers, [128, 256, 512], channels, extra)


# Every anchor and proposal is sampled: which ones a random choice takes differs between devices.
EVERYTHING = {"rpn_batch_size_per_image": 100000, "box_batch_size_per_image": 100000}
SIZES = {"min_size": 64, "max_size": 96}


def anchors(levels, shapes=(0.5, 1.0, 2.0)):
    return models().detection.anchor_utils.AnchorGenerator(
        tuple((8 * 2**i,) for i in range(levels)), (shapes,) * levels
    )


def faster_rcnn():
    return models().detection.FasterRCNN(pyramid(), num_classes=4, rpn_anchor_generator=anchors(4),
                                         rpn_post_nms_top_n_train=100, rpn_post_nms_top_n_test=50, **EVERYTHING,
                                         **SIZES)  # fmt: skip


def mask_rcnn():
    return models().detection.MaskRCNN(pyramid(), num_classes=4, rpn_anchor_generator=anchors(4),
                                       rpn_post_nms_top_n_train=50, rpn_post_nms_top_n_test=20, **EVERYTHING,
                                       **SIZES)  # fmt: skip


def keypoint_rcnn():
    module = models().detection.keypoint_rcnn
    return models().detection.KeypointRCNN(pyramid(), num_classes=2, rpn_anchor_generator=anchors(4),
                                           rpn_post_nms_top_n_train=50, num_keypoints=None,
                                           keypoint_head=module.KeypointRCNNHeads(32, (32, 32)),
                                           keypoint_predictor=module.KeypointRCNNPredictor(32, 5),
                                           rpn_post_nms_top_n_test=20, **EVERYTHING, **SIZES)  # fmt: skip


def retinanet():
    return models().detection.RetinaNet(pyramid(pool=False), num_classes=4, anchor_generator=anchors(5), **SIZES)


def fcos():
    return models().detection.FCOS(pyramid(pool=False), num_classes=4, anchor_generator=anchors(5, (1.0,)), **SIZES)


# With random weights the scores of a dense detector hardly differ: the best few are distinct, the order of hundreds is
# up to rounding.
FEW = {"topk_candidates": 20, "detections_per_img": 5}


def ssd():
    return models().detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4, **FEW)


def ssd300():
    return models().detection.ssd300_vgg16(weights=None, weights_backbone=None, num_classes=4, **FEW)


def detection_batch(count=2, edge=64, classes=4):
    images = [(picture + 1) / 3 for picture in digits(count, edge, seed=9)[0]]
    targets = []
    for i in range(count):
        corner = randint(edge // 2, 3, 2, seed=20 + i).float()
        boxes = torch.cat([corner, corner + 8 + randint(edge // 3, 3, 2, seed=30 + i).float()], dim=1)
        masks = torch.zeros(3, edge, edge, dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.long().tolist()):
            mask[y1:y2, x1:x2] = 1
        points = torch.cat([boxes[:, None, :2] + randint(8, 3, 5, 2, seed=40 + i), torch.ones(3, 5, 1)], dim=2)
        targets.append(
            {"boxes": boxes, "labels": randint(classes, 3, seed=50 + i, low=1), "masks": masks, "keypoints": points}
        )
    return images, targets


def detection_loss(network, images, targets):
    return sum(network(images, targets).values())


def detections(network, images, targets):
    return [list(found.values()) for found in network(images)]


DETECTION = {
    "faster_rcnn": (faster_rcnn, {}),
    "mask_rcnn": (mask_rcnn, {}),
    "keypoint_rcnn": (keypoint_rcnn, {"classes": 2}),
    "retinanet": (retinanet, {}),
    "fcos": (fcos, {}),
    "ssdlite320": (ssd, {}),
    "ssd300": (ssd300, {}),
}


def video(name):
    return getattr(models().video, name)(weights=None, num_classes=CLASSES)


def mvit():
    module = models().video.mvit
    settings = [module.MSBlockConfig(1, 16, 32, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 2, 2]),
                module.MSBlockConfig(2, 32, 32, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 1, 1])]  # fmt: skip
    return module.MViT((32, 32), 8, settings, residual_pool=True, residual_with_cls_embed=False, rel_pos_embed=True,
                       proj_after_attn=True, num_classes=CLASSES)  # fmt: skip


VIDEO = {"r3d_18": (partial(video, "r3d_18"), 4, 32), "r2plus1d_18": (partial(video, "r2plus1d_18"), 4, 32),
         "mc3_18": (partial(video, "mc3_18"), 4, 32),
         "mvit": (mvit, 8, 32)}  # fmt: skip


def video_batch(frames, edge):
    return randn(2, 3, frames, edge, edge, seed=1), torch.tensor([1, 7])


def rows():
    quick = {"convnext", "swin", "shufflenet_v2_x0_5", "lraspp_mobilenet_v3_large", "faster_rcnn", "mvit"}
    for name, (build, edge) in CLASSIFIERS.items():
        yield Model("torchvision", name, build, partial(digits, 4, edge, 3), classification_loss, first, name in quick)
    for name, build in SEGMENTATION.items():
        yield Model("torchvision", name, build, segmentation_batch, segmentation_loss, first, name in quick)
    for name, (build, options) in DETECTION.items():
        yield Model(
            "torchvision", name, build, partial(detection_batch, **options), detection_loss, detections, name in quick
        )
    for name, (build, frames, edge) in VIDEO.items():
        yield Model(
            "torchvision", name, build, partial(video_batch, frames, edge), classification_loss, first, name in quick
        )
