"""torch_ocl.optimize on families of transformers as they are: the same results, and no operator on the CPU."""

import copy

import pytest
import torch

import torch_ocl
from conftest import without_fallback

transformers = pytest.importorskip("transformers")

TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}
DECODER = {**TEXT, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": 1}
# Options of the configuration, and how many parts at least are found by their structure.
FAMILIES = {
    "bert": (TEXT, 2),
    "distilbert": ({"dim": 64, "hidden_dim": 96, "n_layers": 2, "n_heads": 4, "vocab_size": 128}, 2),
    "vit": ({**TEXT, "image_size": 32, "patch_size": 8}, 2),
    "t5": ({"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 128}, 4),
    "llama": (DECODER, 8),
    "qwen3": (DECODER, 8),
    "gemma2": (DECODER, 2),
    "phi3": (DECODER, 5),
    "gpt2": ({"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128}, 0),
}


def inputs_of(family):
    ids = torch.arange(1, 10).unsqueeze(0)
    if family == "vit":
        return {"pixel_values": torch.linspace(-1, 1, 3 * 32 * 32).view(1, 3, 32, 32)}
    return {"input_ids": ids, **({"decoder_input_ids": ids + 3} if family == "t5" else {})}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore:torch_ocl.optimize")
def test_family(device, family):
    options, parts = FAMILIES[family]
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(family, **options)).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    faster = torch_ocl.optimize(model)
    found = [part for part in faster.modules() if type(part).__name__ in ("RMSNorm", "GatedMLP", "_Merged")]
    assert len(found) >= parts
    inputs = inputs_of(family)
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
        moved = {key: value.to(device) for key, value in inputs.items()}
        faster = copy.deepcopy(faster).to(device)
        with without_fallback():
            actual = faster(**moved).last_hidden_state
    assert actual.device.type == "ocl"
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_arguments_of_bert_that_are_left_out(device):
    """Ids or embeddings: either may be left out, of the optimised model too."""
    model = transformers.BertModel(transformers.BertConfig(**TEXT)).eval()
    faster = torch_ocl.optimize(model).to(device)
    embedded = torch.linspace(-1, 1, 5 * 64).view(1, 5, 64)
    with torch.no_grad():
        expected, actual = model(inputs_embeds=embedded), faster(inputs_embeds=embedded.to(device))
    torch.testing.assert_close(actual.last_hidden_state.cpu(), expected.last_hidden_state, rtol=1e-4, atol=1e-5)
