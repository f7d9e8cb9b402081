"""Hugging Face transformers: language, speech, vision and both, from small configurations with random weights; the
generating ones generate."""

from functools import partial

import torch

from .model import Model, randint, randn

VOCABULARY, LENGTH = 96, 12
TOKENS = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
DECODER = {
    **TOKENS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = {**DECODER, "num_key_value_heads": 2, "head_dim": 16}
ENCODER = {
    **TOKENS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
VISION = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}


def build(name, config, **options):
    """AutoModel class `name` from the configuration class `config`."""
    import transformers

    return getattr(transformers, name)(getattr(transformers, config)(**options))


def sentences(count=2, length=LENGTH, padded=True):
    """Token numbers, attention mask (the second sentence is shorter) and labels."""
    tokens = randint(VOCABULARY, count, length, seed=1, low=3)
    mask = torch.ones_like(tokens)
    if padded:
        mask[1, : length // 3] = 0
    return {"input_ids": tokens, "attention_mask": mask, "labels": tokens.masked_fill(mask == 0, -100)}


def batch_of_sentences(padded=True):
    return (sentences(padded=padded),)


def loss(network, batch):
    return network(**batch).loss


def generated(network, batch):
    """The tokens of greedy and of beam search.

    Of sampling only the shape: every device draws its own random numbers.
    """
    inputs = {name: value for name, value in batch.items() if name not in ("labels", "decoder_input_ids")}
    options = {"max_new_tokens": 8, "min_new_tokens": 8}
    greedy = network.generate(**inputs, **options, do_sample=False)
    beams = network.generate(**inputs, **options, do_sample=False, num_beams=3)
    sampled = network.generate(**inputs, **options, do_sample=True, top_k=20, top_p=0.9, temperature=0.8)
    return [greedy, beams, torch.tensor(sampled.shape)]


def outputs(network, batch):
    """Logits, or whatever else floating-point numbers the model gives."""
    found = network(**{name: value for name, value in batch.items() if "label" not in name})
    return [value for value in found.values() if isinstance(value, torch.Tensor)]


DECODERS = {  # name: (class, configuration, options)
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**TOKENS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 6}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**DECODER, "num_key_value_heads": 2}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig",
                  {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**GROUPED, "num_local_experts": 4}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "sliding_window": 6}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**GROUPED, "sliding_window": 6}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**DECODER, "num_key_value_heads": 2}),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", DECODER),
    "opt": ("OPTForCausalLM", "OPTConfig", {**TOKENS, "hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 2,
                                            "num_attention_heads": 4,
                                            "max_position_embeddings": 64, "word_embed_proj_dim": 64}),
    "bloom": ("BloomForCausalLM", "BloomConfig", {**TOKENS, "hidden_size": 64, "n_layer": 2, "n_head": 4}),
    "falcon": ("FalconForCausalLM", "FalconConfig",
               {**TOKENS, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}),
    "mamba": ("MambaForCausalLM", "MambaConfig",
              {**TOKENS, "hidden_size": 64, "state_size": 8, "num_hidden_layers": 2}),
}  # fmt: skip

UNPADDED = {
    "mamba",
    "gemma2",
    "bloom",
}  # the first ignores padding, the others make NaN of sentences padded on the left, on every device

SEQUENCE_TO_SEQUENCE = {
    "t5": ("T5ForConditionalGeneration", "T5Config", {"vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 96,
                                                      "num_layers": 2, "num_heads": 4,
                                                       "decoder_start_token_id": 0, "pad_token_id": 0,
                                                       "eos_token_id": 2}),
    "bart": ("BartForConditionalGeneration", "BartConfig",
             {**TOKENS, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
                                                            "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
                                                            "decoder_ffn_dim": 96,
                                                            "max_position_embeddings": 64, "decoder_start_token_id": 1,
                                                            "forced_eos_token_id": None}),
}  # fmt: skip

ENCODERS = {  # masked language models
    "bert": ("BertForMaskedLM", "BertConfig", ENCODER),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", ENCODER),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig",
                   {"vocab_size": VOCABULARY, "dim": 64, "hidden_dim": 96, "n_layers": 2, "n_heads": 4}),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", {**ENCODER, "embedding_size": 32}),
    "albert": ("AlbertForMaskedLM", "AlbertConfig", {**ENCODER, "embedding_size": 32}),
    "deberta_v2": ("DebertaV2ForMaskedLM", "DebertaV2Config",
                   {**ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
                    "position_biased_input": False}),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig",
                   {**ENCODER, "cls_token_id": 1, "sep_token_id": 2, "global_attn_every_n_layers": 2,
                    "local_attention": 4}),
}  # fmt: skip

IMAGES = {
    "vit": ("ViTForImageClassification", "ViTConfig", {**VISION, "num_labels": 5}),
    "deit": ("DeiTForImageClassification", "DeiTConfig", {**VISION, "num_labels": 5}),
    "beit": ("BeitForImageClassification", "BeitConfig",
             {**VISION, "num_labels": 5, "use_relative_position_bias": True}),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Config", {**VISION, "num_labels": 5}),
    "swin": ("SwinForImageClassification", "SwinConfig",
             {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4],
                                                         "window_size": 4, "num_labels": 5}),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig",
                 {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "image_size": 32, "num_labels": 5}),
    "resnet": ("ResNetForImageClassification", "ResNetConfig",
               {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "num_labels": 5}),
}  # fmt: skip


def image_batch(classes=5, edge=32):
    return ({"pixel_values": randn(2, 3, edge, edge, seed=4), "labels": randint(classes, 2, seed=5)},)


def segformer():
    return build("SegformerForSemanticSegmentation", "SegformerConfig", num_encoder_blocks=2, depths=[1, 1],
                 sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
                 num_attention_heads=[2, 4], mlp_ratios=[2, 2], decoder_hidden_size=32, num_labels=5)  # fmt: skip


def segmentation_batch():
    return ({"pixel_values": randn(2, 3, 64, 64, seed=4), "labels": randint(5, 2, 64, 64, seed=5)},)


def whisper():
    return build("WhisperForConditionalGeneration", "WhisperConfig", **TOKENS, d_model=64, encoder_layers=2,
                 decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
                 decoder_ffn_dim=96, num_mel_bins=20, max_source_positions=30, max_target_positions=40,
                 decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)  # fmt: skip


def whisper_batch():
    return ({"input_features": randn(2, 20, 60, seed=3), "labels": randint(VOCABULARY, 2, 8, seed=2, low=3)},)


def whisper_generated(network, batch):
    features = batch["input_features"]
    return [network.generate(features, max_new_tokens=8, do_sample=False, num_beams=beams) for beams in (1, 3)]


def wav2vec2():
    return build("Wav2Vec2ForCTC", "Wav2Vec2Config", vocab_size=20, hidden_size=64, num_hidden_layers=2,
                 num_attention_heads=4, intermediate_size=96, conv_dim=[32, 32, 32], conv_kernel=[10, 3, 3],
                 conv_stride=[5, 2, 2], num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
                 num_feat_extract_layers=3, mask_time_prob=0.0, ctc_loss_reduction="mean", layerdrop=0.0,
                 pad_token_id=0)  # fmt: skip


def wav2vec2_batch():
    return ({"input_values": randn(2, 800, seed=3), "labels": randint(20, 2, 6, seed=2, low=1)},)


def clip():
    import transformers

    text = {
        **TOKENS,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 32,
    }
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=32))


def siglip():
    import transformers

    text = {
        **TOKENS,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 32,
    }
    return transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=VISION))


def pairs():
    return ({"input_ids": randint(VOCABULARY, 3, LENGTH, seed=1, low=3), "pixel_values": randn(3, 3, 32, 32, seed=4)},)


def pair_loss(network, batch):
    return network(**batch, return_loss=True).loss


def pair_outputs(network, batch):
    found = network(**batch)
    return [found.logits_per_image, found.text_embeds, found.image_embeds]


def detr():
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"]
    )
    return build("DetrForObjectDetection", "DetrConfig", use_timm_backbone=False, use_pretrained_backbone=False,
                 backbone=None, backbone_config=backbone, d_model=32, encoder_layers=1, decoder_layers=1,
                 encoder_ffn_dim=64, decoder_ffn_dim=64, encoder_attention_heads=4, decoder_attention_heads=4,
                 num_queries=6, num_labels=3)  # fmt: skip


def detr_batch():
    boxes = [torch.tensor([[0.3, 0.4, 0.2, 0.3], [0.6, 0.5, 0.3, 0.3]]), torch.tensor([[0.5, 0.5, 0.4, 0.6]])]
    labels = [{"class_labels": torch.arange(len(part)), "boxes": part} for part in boxes]
    return ({"pixel_values": randn(2, 3, 64, 64, seed=4), "labels": labels},)


def rows():
    quick = {"gpt2", "llama", "t5", "bert"}
    for name, (model, config, options) in DECODERS.items():
        yield Model(
            "transformers",
            name,
            partial(build, model, config, **options),
            partial(batch_of_sentences, name not in UNPADDED),
            loss,
            generated,
            name in quick,
        )
    for name, (model, config, options) in SEQUENCE_TO_SEQUENCE.items():
        yield Model(
            "transformers",
            name,
            partial(build, model, config, **options),
            batch_of_sentences,
            loss,
            generated,
            name in quick,
        )
    for name, (model, config, options) in ENCODERS.items():
        yield Model(
            "transformers",
            name,
            partial(build, model, config, **options),
            batch_of_sentences,
            loss,
            outputs,
            name in quick,
        )
    for name, (model, config, options) in IMAGES.items():
        yield Model(
            "transformers", name, partial(build, model, config, **options), image_batch, loss, outputs, name in quick
        )
    yield Model("transformers", "segformer", segformer, segmentation_batch, loss, outputs)
    yield Model("transformers", "whisper", whisper, whisper_batch, loss, whisper_generated, True)
    yield Model("transformers", "wav2vec2", wav2vec2, wav2vec2_batch, loss, outputs)
    yield Model("transformers", "clip", clip, pairs, pair_loss, pair_outputs, True)
    yield Model("transformers", "siglip", siglip, pairs, pair_loss, pair_outputs)
    yield Model("transformers", "detr", detr, detr_batch, loss, outputs)
