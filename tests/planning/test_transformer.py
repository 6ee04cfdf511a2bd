"""The paper's formulas: its own sums, what its text says, and what is refused."""

from dataclasses import replace
from fractions import Fraction

import pytest

from ckptlab.errors import ShapeError
from ckptlab.planning.transformer import (
    TECHNIQUES,
    Technique,
    TransformerShape,
    activation_bytes_first_stage,
    activation_bytes_per_layer,
    activation_terms,
    extra_activation_terms,
    forward_flops_per_layer,
    hardware_flops,
    model_flops,
    parameter_count,
    training_state_bytes,
)

# Korthikanti et al. 2022, Table 3: heads, hidden, layers, micro-batch, pipeline stages
TABLE_3 = {
    "22B": (64, 6144, 48, 4, 1),
    "175B": (96, 12288, 96, 1, 8),
    "530B": (128, 20480, 105, 1, 35),
    "1T": (160, 25600, 128, 1, 64),
}


def shape_of(name: str) -> TransformerShape:
    heads, hidden, layers, micro_batch, pipeline = TABLE_3[name]
    return TransformerShape(
        heads,
        hidden,
        layers,
        2048,
        micro_batch,
        vocabulary=51200,
        tensor_parallel=8,
        pipeline_parallel=pipeline,
    )


SHAPES = {name: shape_of(name) for name in TABLE_3}


@pytest.mark.parametrize("name", SHAPES)
def test_terms_add_up_to_table_2(name: str) -> None:
    shape = SHAPES[name]
    a, h, s, t = shape.heads, shape.hidden, shape.sequence, shape.tensor_parallel
    sbh = s * shape.micro_batch * h
    core = Fraction(5 * a * s, h)
    table: dict[Technique, Fraction | int] = {
        "none": sbh * (34 + core),  # Equation 1
        "tensor": sbh * (10 + Fraction(24, t) + core / t),  # Equation 2
        "tensor+sequence": sbh * (Fraction(34, t) + core / t),  # Equation 4
        "tensor+selective": sbh * (10 + Fraction(24, t)),
        "tensor+sequence+selective": sbh * Fraction(34, t),
        "full": 2 * sbh,
    }
    assert set(table) == set(TECHNIQUES)
    for technique, n_bytes in table.items():
        assert activation_bytes_per_layer(shape, technique) == n_bytes


def test_terms_of_attention_and_mlp_are_those_of_section_4_1() -> None:
    shape = SHAPES["175B"]
    terms = activation_terms(shape, "none")
    sbh = shape.sequence * shape.micro_batch * shape.hidden
    square = shape.heads * shape.sequence**2 * shape.micro_batch
    mlp = sum(n for name, n in terms.items() if "MLP" in name or "GELU" in name)
    norms = sum(n for name, n in terms.items() if "layer norm" in name)
    assert mlp == 19 * sbh
    assert norms == 4 * sbh
    assert sum(terms.values()) - mlp - norms == 11 * sbh + 5 * square


def test_ratios_that_section_5_names() -> None:
    for name, ratio, percent in (("175B", 80, 70), ("530B", 64, 65)):
        shape = SHAPES[name]
        assert 5 * shape.heads * shape.sequence == ratio * shape.hidden
        kept = activation_bytes_per_layer(shape, "tensor+sequence+selective")
        whole = activation_bytes_per_layer(shape, "tensor+sequence")
        assert round(100 * (1 - kept / whole)) == percent


def test_one_rank_keeps_what_no_parallelism_keeps() -> None:
    shape = replace(SHAPES["175B"], tensor_parallel=1)
    for technique in ("tensor", "tensor+sequence"):
        assert activation_terms(shape, technique) == activation_terms(shape, "none")


@pytest.mark.parametrize("name", SHAPES)
def test_first_stage_is_equation_5_and_the_terms_of_section_4_3(name: str) -> None:
    shape = SHAPES[name]
    h, t, p, v = shape.hidden, shape.tensor_parallel, shape.pipeline_parallel, 51200
    sbhl = shape.sequence * shape.micro_batch * h * shape.layers
    core = Fraction(5 * shape.heads * shape.sequence, h)
    whole = Fraction(sbhl, t) * (34 + core)
    extra = Fraction(p, shape.layers)
    if p == 1:
        extra += Fraction(4, shape.layers) * (1 + Fraction(v, h))
    found = activation_bytes_first_stage(shape, "tensor+sequence")
    assert found == whole + Fraction(sbhl, t) * extra


def test_extra_terms_of_the_22b_model_are_not_what_the_text_says() -> None:
    """Section 4.3 says under 0.01%; the formula there gives 0.57%."""
    shape = SHAPES["22B"]
    extra = sum(extra_activation_terms(shape, "tensor+sequence").values())
    total = activation_bytes_first_stage(shape, "tensor+sequence")
    assert extra / total == pytest.approx(0.0057, abs=1e-4)


def test_interleaving_adds_its_factor() -> None:
    shape = SHAPES["175B"]  # m is 3, p is 8
    layers = activation_bytes_per_layer(shape, "tensor+sequence") * shape.layers
    plain = activation_bytes_first_stage(shape, "tensor+sequence")
    interleaved = activation_bytes_first_stage(
        shape, "tensor+sequence", interleaved_stages=3
    )
    assert interleaved - plain == Fraction(7, 24) * layers


def test_terms_that_are_not_sharded_are_whole_without_sequence_parallelism() -> None:
    shape = SHAPES["22B"]
    split = extra_activation_terms(shape, "tensor+sequence")
    whole = extra_activation_terms(shape, "tensor")
    for name in split:
        factor = 1 if name == "32-bit logits" else shape.tensor_parallel
        assert whole[name] == factor * split[name]


@pytest.mark.parametrize(
    ("name", "billions"), [("22B", 22), ("175B", 175), ("530B", 530), ("1T", 1008)]
)
def test_parameters_are_as_many_as_the_models_are_named_for(
    name: str, billions: int
) -> None:
    assert round(parameter_count(SHAPES[name]) / 1e9) == billions


def test_training_state_is_sixteen_bytes_a_parameter() -> None:
    shape = SHAPES["22B"]
    assert sum(training_state_bytes(shape).values()) == 16 * parameter_count(shape)


@pytest.mark.parametrize("name", SHAPES)
def test_flops_are_those_of_appendix_a(name: str) -> None:
    shape = SHAPES[name]
    batch, s, h = shape.micro_batch, shape.sequence, shape.hidden
    layers, v = shape.layers, shape.vocabulary
    forward = sum(forward_flops_per_layer(shape).values())
    assert forward == 24 * batch * s * h**2 + 4 * batch * s**2 * h
    equation_7 = 72 * batch * layers * s * h**2
    assert model_flops(shape) == equation_7 * (
        1 + Fraction(s, 6 * h) + Fraction(v, 12 * h * layers)
    )


@pytest.mark.parametrize(
    ("name", "percent", "papers"), [("175B", 0.90, 2.7), ("530B", 0.55, 1.6)]
)
def test_selective_recomputation_adds_what_appendix_a_adds_up_to(
    name: str, percent: float, papers: float
) -> None:
    """The paper prints 2.7% and 1.6%, which do not follow from its own appendix."""
    shape = SHAPES[name]
    layers = 3 * shape.layers * sum(forward_flops_per_layer(shape).values())

    def added(*, early_stop: bool) -> float:
        executed = hardware_flops(
            shape, "tensor+sequence+selective", early_stop=early_stop
        )
        return 100 * (executed - model_flops(shape)) / layers

    assert added(early_stop=False) == pytest.approx(percent, abs=0.005)
    assert added(early_stop=True) == pytest.approx(percent / 2, abs=0.005)
    assert papers > 2.5 * added(early_stop=False)


def test_full_recomputation_adds_a_third_of_the_layers() -> None:
    shape = SHAPES["1T"]
    layers = 3 * shape.layers * sum(forward_flops_per_layer(shape).values())
    assert hardware_flops(shape, "full") - model_flops(shape) == Fraction(layers, 3)
    for technique in ("none", "tensor", "tensor+sequence"):
        assert hardware_flops(shape, technique) == model_flops(shape)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"heads": 0}, "heads is 0; it must be a whole number from 1 up"),
        ({"hidden": 100.0}, r"hidden is 100\.0; it must be a whole number"),
        ({"layers": True}, "layers is True"),
        ({"heads": 100}, "hidden 12288 does not divide by heads 100"),
        ({"tensor_parallel": 64}, "heads 96 does not divide by tensor_parallel 64"),
        ({"sequence": 2044}, "sequence 2044 does not divide by tensor_parallel 8"),
        ({"pipeline_parallel": 7}, "layers 96 does not divide by pipeline_parallel 7"),
    ],
)
def test_sizes_that_cannot_be_are_refused(change: dict[str, int], told: str) -> None:
    with pytest.raises(ShapeError, match=told):
        replace(SHAPES["175B"], **change)


def test_technique_or_schedule_that_does_not_exist_is_refused() -> None:
    shape = SHAPES["22B"]
    for function in (activation_terms, hardware_flops, extra_activation_terms):
        with pytest.raises(ShapeError, match="there is no technique 'magic'"):
            function(shape, "magic")  # type: ignore[operator]
    with pytest.raises(ShapeError, match="interleaved_stages is 0"):
        activation_bytes_first_stage(shape, "tensor", interleaved_stages=0)
