"""Programs that call libraries of images."""

import torch
import torch.nn.functional as F
from torch import nn

from .own import draw
from .own_models import trained
from .programs import program


def with_operators():
    """torchvision's operators are needed at the import of what follows; the CPU build of PyTorch cannot load them."""
    from benchmarks.models.images import import_torchvision

    return import_torchvision()


@program("warps, filters, colours, structural similarity with gradients", "kornia", terms=40000)
def kornia_images(device):
    import kornia

    image = draw(2, 3, 16, 16).sigmoid().to(device).requires_grad_()
    matrix = torch.tensor([[[0.9, 0.2, 1.0], [-0.2, 0.9, 2.0]]]).repeat(2, 1, 1).to(device)
    warped = kornia.geometry.transform.warp_affine(image, matrix, (16, 16))
    blurred = kornia.filters.gaussian_blur2d(warped, (5, 5), (1.5, 1.5))
    lab = kornia.color.rgb_to_lab(blurred.clamp(0, 1))
    loss = kornia.losses.ssim_loss(blurred, image.detach(), 5) + lab.mean() / 100
    loss.backward()
    edges = kornia.filters.spatial_gradient(image.detach())
    kernel = torch.ones(3, 3).to(device)
    return [lab, loss, image.grad, edges, kornia.morphology.dilation(image.detach(), kernel)]


@program("U-Net with Dice loss, sliding windows", "monai", terms=40000)
def monai_unet(device):
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet

    net = UNet(2, 1, 2, channels=(4, 8), strides=(2,), num_res_units=1).to(device)
    image, mask = draw(1, 1, 24, 24).to(device), (draw(1, 1, 24, 24) > 0).float().to(device)
    loss = lambda: DiceLoss(sigmoid=True)(net(image)[:, :1], mask)
    values = trained(net, torch.optim.SGD(net.parameters(), lr=0.01), loss, 1)
    with torch.no_grad():
        return [*values, sliding_window_inference(image, (16, 16), 2, net.eval(), overlap=0.5)]


@program("a U-Net over ResNet-18: losses of Dice and Jaccard, a training step", "segmentation-models-pytorch",
         terms=400000)  # fmt: skip
def segmentation_models(device):
    with_operators()
    import segmentation_models_pytorch as smp

    net = smp.Unet("resnet18", encoder_weights=None, classes=2, decoder_channels=(16, 16, 8, 8, 8)).to(device).eval()
    image, mask = draw(1, 3, 32, 32).to(device), (draw(1, 32, 32) > 0).long().to(device)
    scores = net(image)
    loss = smp.losses.DiceLoss("multiclass")(scores, mask) + smp.losses.JaccardLoss("multiclass")(scores, mask)
    loss.backward()
    return [scores, loss, net.segmentation_head[0].weight.grad]


@program("YOLOv8: the loss of boxes and classes, its gradients, decoded boxes", "ultralytics", terms=400000)
def ultralytics_yolo(device):
    with_operators()
    from types import SimpleNamespace

    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel("yolov8n.yaml", ch=3, nc=4, verbose=False)
    model.args = SimpleNamespace(box=7.5, cls=0.5, dfl=1.5)
    model = model.to(device)
    batch = {"img": draw(2, 3, 64, 64).sigmoid().to(device), "batch_idx": torch.tensor([0.0, 1.0]).to(device),
             "cls": torch.tensor([[1.0], [3.0]]).to(device),
             "bboxes": torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.4, 0.6, 0.3, 0.5]]).to(device)}  # fmt: skip
    model.train()
    loss, _ = model.loss(batch)
    loss.sum().backward()
    with torch.no_grad():
        decoded = model.eval()(batch["img"])[0]
    return [loss, model.model[0].conv.weight.grad, decoded]


@program("a tiny CLIP: features, the contrastive loss and its gradients", "open_clip_torch", terms=40000)
def open_clip_pair(device):
    with_operators()
    from open_clip import ClipLoss
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    vision = CLIPVisionCfg(layers=1, width=32, head_width=16, patch_size=8, image_size=16)
    text = CLIPTextCfg(context_length=8, vocab_size=50, width=32, heads=2, layers=1)
    model = CLIP(16, vision, text).to(device)
    words = torch.randint(1, 49, (3, 8))
    words[:, -1] = 49
    image, word, scale = model(draw(3, 3, 16, 16).to(device), words.to(device))
    loss = ClipLoss()(image, word, scale)
    loss.backward()
    return [image, word, loss, model.visual.conv1.weight.grad]


@program("prompts to masks: a tiny image encoder, points and boxes, masks", "segment-anything", terms=40000)
def segment_anything_masks(device):
    with_operators()
    from segment_anything.modeling import ImageEncoderViT, MaskDecoder, PromptEncoder, Sam, TwoWayTransformer

    encoder = ImageEncoderViT(img_size=64, patch_size=16, embed_dim=16, depth=2, num_heads=2, out_chans=16,
                              window_size=2, global_attn_indexes=(1,), use_rel_pos=True)  # fmt: skip
    prompts = PromptEncoder(16, (4, 4), (64, 64), mask_in_chans=4)
    transformer = TwoWayTransformer(depth=1, embedding_dim=16, mlp_dim=32, num_heads=2)
    decoder = MaskDecoder(transformer_dim=16, transformer=transformer, iou_head_hidden_dim=16)
    sam = Sam(encoder, prompts, decoder).eval().to(device)
    points, labels = torch.tensor([[[10.0, 12.0], [40.0, 20.0]]]).to(device), torch.tensor([[1, 0]]).to(device)
    one = {"image": (draw(3, 48, 64).sigmoid() * 255).to(device), "original_size": (48, 64), "point_coords": points,
           "point_labels": labels, "boxes": torch.tensor([[4.0, 4.0, 50.0, 40.0]]).to(device)}  # fmt: skip
    with torch.no_grad():
        result = sam([one], multimask_output=True)[0]
    return [result["iou_predictions"], result["low_res_logits"]]


@program("perceptual distance of AlexNet's features and its gradient", "lpips", terms=400000)
def lpips_distance(device):
    with_operators()
    import lpips

    distance = lpips.LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False).eval().to(device)
    image = draw(1, 3, 64, 64).tanh().to(device).requires_grad_()
    value = distance(image, draw(1, 3, 64, 64).tanh().to(device))
    value.sum().backward()
    return [value, image.grad]


@program("structural similarity at one and at several scales", "pytorch-msssim", terms=40000)
def msssim_values(device):
    from pytorch_msssim import ms_ssim, ssim

    one = draw(1, 3, 176, 176).sigmoid().to(device).requires_grad_()
    other = (one.detach() * 0.8 + 0.1).roll(1, -1)
    value = ms_ssim(one, other, data_range=1.0)
    value.backward()
    return [ssim(one, other, data_range=1.0), value, one.grad]


@program("a vision transformer: a training step, scores", "vit-pytorch", terms=40000)
def vit_pytorch_step(device):
    with_operators()
    from vit_pytorch import ViT

    net = ViT(image_size=16, patch_size=8, num_classes=4, dim=16, depth=2, heads=2, mlp_dim=32, dim_head=8).to(device)
    image, labels = draw(3, 3, 16, 16).to(device), torch.tensor([0, 2, 3]).to(device)
    loss = lambda: F.cross_entropy(net(image), labels)
    return [*trained(net, torch.optim.SGD(net.parameters(), lr=0.05), loss, 2), net(image)]


@program("a diffusion network: the loss of given noise, its gradients", "denoising-diffusion-pytorch", terms=400000)
def denoising_diffusion(device):
    with_operators()
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    net = Unet(8, dim_mults=(1, 2), attn_dim_head=8, attn_heads=2)
    model = GaussianDiffusion(net, image_size=16, timesteps=20).to(device)
    noise, image = draw(2, 3, 16, 16).to(device), draw(2, 3, 16, 16).to(device)
    loss = model.p_losses(image, torch.tensor([3, 15]).to(device), noise=noise)
    loss.backward()
    return [loss, net.init_conv.weight.grad]


@program("attributions: integrated gradients, class activation maps, occlusion", "captum", terms=40000)
def captum_attributions(device):
    from captum.attr import IntegratedGradients, LayerGradCam, Occlusion, Saliency

    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5))
    net = net.to(device)
    image = draw(2, 3, 10, 10).to(device)
    return [IntegratedGradients(net).attribute(image, target=2, n_steps=8), Saliency(net).attribute(image, target=1),
            LayerGradCam(net, net[0]).attribute(image, target=3),
            Occlusion(net).attribute(image, (3, 4, 4), strides=(3, 3, 3), target=0)]  # fmt: skip


@program("losses of triplets and pairs, miners, gradients", "pytorch-metric-learning", terms=40000)
def metric_learning(device):
    from pytorch_metric_learning import losses, miners

    points, labels = draw(12, 8).to(device).requires_grad_(), (torch.arange(12) % 4).to(device)
    triplets = miners.TripletMarginMiner(margin=0.5)(points, labels)
    loss = losses.TripletMarginLoss()(points, labels, triplets) + losses.NTXentLoss()(points, labels)
    loss.backward()
    return [loss, points.grad]
