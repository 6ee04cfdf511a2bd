"""The networks of the lessons have the shapes that they claim."""

import math

import pytest
import torch

from ckptlab import models, parameter_bytes, saved_tensors

# Korthikanti et al. 2022, Table 3: heads, hidden size, micro-batch; s = 2048
PAPER_MODELS = {
    "22B": (64, 6144, 4),
    "175B (GPT-3)": (96, 12288, 1),
    "530B (MT-NLG)": (128, 20480, 1),
    "1T": (160, 25600, 1),
}


@pytest.mark.parametrize("name", PAPER_MODELS)
def test_one_block_keeps_what_equation_1_of_the_paper_says(name: str) -> None:
    a, h, b = PAPER_MODELS[name]
    s = 2048
    with torch.device("meta"):
        block = models.Block(heads=a, hidden=h).bfloat16()
        x = torch.empty(b, s, h, dtype=torch.bfloat16)
    with saved_tensors(block) as saved:
        _output = block(x)
    equation_1 = 34 * s * b * h + 5 * a * s * s * b
    # the paper leaves out small buffers: two float32 numbers a row of each layer norm
    statistics = 2 * 2 * s * b * 4
    assert saved.total_bytes + saved.input_bytes == equation_1 + statistics


def test_gpt2_has_tied_embeddings_and_the_published_number_of_weights() -> None:
    with torch.device("meta"):
        gpt2 = models.GPT(**models.GPT2_SMALL)
    shape = models.GPT2_SMALL
    h, v, s = shape["hidden"], shape["vocabulary"], shape["sequence"]
    block = 12 * h * h + 13 * h  # attention 4h² + 4h, MLP 8h² + 5h, norms 4h
    expected = v * h + s * h + shape["layers"] * block + 2 * h
    assert sum(p.numel() for p in gpt2.parameters()) == expected
    assert parameter_bytes(gpt2) == 4 * expected
    assert gpt2.output.weight is gpt2.token_embedding.weight


def test_attention_equals_pytorchs_own() -> None:
    attention = models.Attention(heads=4, hidden=32, dropout=0.0)
    x = torch.randn(2, 8, 32)
    mask = torch.ones(8, 8, dtype=torch.bool).triu(1)
    qkv = attention.query_key_value(x).view(2, 8, 3, 4, 8).permute(2, 0, 3, 1, 4)
    fused = torch.nn.functional.scaled_dot_product_attention(*qkv, is_causal=True)
    expected = attention.projection(fused.transpose(1, 2).reshape(2, 8, 32))
    torch.testing.assert_close(attention(x, mask), expected)


def test_gpt_does_not_look_ahead() -> None:
    shape = {"heads": 2, "hidden": 16, "layers": 2, "sequence": 8, "vocabulary": 10}
    gpt = models.GPT(**shape).eval()
    tokens = torch.randint(10, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 10
    before, after = gpt(tokens), gpt(changed)
    assert torch.equal(before[0, :5], after[0, :5])
    assert not torch.equal(before[0, 5:], after[0, 5:])


def test_dropout_saves_one_byte_an_element_and_keeps_the_mean() -> None:
    dropout = models.Dropout(0.25)
    x = torch.ones(1000, 100, requires_grad=True)
    with saved_tensors(dropout) as saved:
        y = dropout(x)
    assert saved.total_bytes == x.numel()
    assert math.isclose(y.mean().item(), 1, abs_tol=0.02)
    assert dropout.eval()(x) is x


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="hidden size 10 does not divide into 3 heads"):
        models.GPT(heads=3, hidden=10, layers=1, sequence=4, vocabulary=4)
