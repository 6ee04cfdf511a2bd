"""Bytes and FLOPs of a transformer from its shape, as one paper counts them.

Source: Korthikanti, Casper, Lym, McAfee, Andersch, Shoeybi, Catanzaro, "Reducing
Activation Recomputation in Large Transformer Models", arXiv:2205.05198. Equations,
tables and sections in this module are the paper's.

Letters: a attention heads, b micro-batch, h hidden size, L layers, s sequence, v
vocabulary, t and p tensor- and pipeline-parallel size. Activations have 16 bits, masks
of dropout a byte an element. Left out, as in the paper: small buffers such as the means
and variances of layer norms.
"""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from ckptlab.errors import ShapeError

Technique = Literal[
    "none",
    "tensor",
    "tensor+sequence",
    "tensor+selective",
    "tensor+sequence+selective",
    "full",
]
TECHNIQUES: tuple[Technique, ...] = get_args(Technique)


@dataclass(frozen=True)
class TransformerShape:
    """The sizes of a GPT-like transformer, and over how many ranks it is laid.

    Raises:
        ShapeError: a size is not a whole number from 1 up, or does not divide as it
            must: hidden by heads; heads, hidden, sequence and vocabulary by
            tensor_parallel; layers by pipeline_parallel.

    Example:
        >>> TransformerShape(96, 12288, 96, 2048, 1, tensor_parallel=8)
        TransformerShape(96 heads, hidden 12288, 96 layers, sequence 2048, \
micro-batch 1, vocabulary 51200, tensor-parallel 8, pipeline-parallel 1)
    """

    heads: int
    hidden: int
    layers: int
    sequence: int
    micro_batch: int
    vocabulary: int = 51200
    tensor_parallel: int = 1
    pipeline_parallel: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ShapeError(
                    f"{field.name} is {value!r}; it must be a whole number from 1 up"
                )
        self._check_divides("hidden", "heads")
        for name in ("heads", "hidden", "sequence", "vocabulary"):
            self._check_divides(name, "tensor_parallel")
        self._check_divides("layers", "pipeline_parallel")

    def _check_divides(self, whole: str, parts: str) -> None:
        if getattr(self, whole) % getattr(self, parts):
            raise ShapeError(
                f"{whole} {getattr(self, whole)} does not divide by {parts} "
                f"{getattr(self, parts)}; change one of them"
            )

    def __repr__(self) -> str:
        return (
            f"TransformerShape({self.heads} heads, hidden {self.hidden}, "
            f"{self.layers} layers, sequence {self.sequence}, "
            f"micro-batch {self.micro_batch}, vocabulary {self.vocabulary}, "
            f"tensor-parallel {self.tensor_parallel}, "
            f"pipeline-parallel {self.pipeline_parallel})"
        )


# -- bytes ---------------------------------------------------------------------------


def activation_terms(shape: TransformerShape, technique: Technique) -> dict[str, int]:
    """Bytes that one rank keeps of one layer for the backward pass, term by term.

    The layer's input is the first layer norm's, and counts. Without parallelism the
    terms of attention add up to 11sbh + 5as²b, of the MLP to 19sbh and of the layer
    norms to 4sbh (Section 4.1), in all to Equation 1.

    Args:
        technique: which row of Table 2.

    Raises:
        ShapeError: there is no such technique.
    """
    _check_technique(technique)
    sbh = shape.sequence * shape.micro_batch * shape.hidden
    square = shape.heads * shape.sequence**2 * shape.micro_batch  # as²b
    # what tensor parallelism leaves whole on each rank, and what it splits
    whole = {
        "layer norm 1 input": 2 * sbh,
        "query, key, value input": 2 * sbh,
        "attention output dropout mask": sbh,
        "layer norm 2 input": 2 * sbh,
        "MLP first linear input": 2 * sbh,
        "MLP dropout mask": sbh,
    }
    split = {
        "query and key": 4 * sbh,
        "value": 2 * sbh,
        "attention projection input": 2 * sbh,
        "GELU input": 8 * sbh,
        "MLP second linear input": 8 * sbh,
    }
    core = {
        "softmax output": 2 * square,
        "softmax dropout mask": square,
        "softmax dropout output": 2 * square,
    }
    if technique == "full":
        return {"layer norm 1 input": 2 * sbh}
    ranks = 1 if technique == "none" else shape.tensor_parallel
    if "selective" not in technique:
        split |= core
    terms = whole | {name: n_bytes // ranks for name, n_bytes in split.items()}
    if "sequence" in technique:
        terms |= {name: n_bytes // ranks for name, n_bytes in whole.items()}
    return terms


def activation_bytes_per_layer(shape: TransformerShape, technique: Technique) -> int:
    """Bytes that one rank keeps of one layer, its input included: Table 2.

    "none" is Equation 1, "tensor" Equation 2, "tensor+sequence" Equation 4.

    Example:
        >>> gpt3 = TransformerShape(96, 12288, 96, 2048, 1, tensor_parallel=8)
        >>> activation_bytes_per_layer(gpt3, "none") // 2**20
        2736
        >>> activation_bytes_per_layer(gpt3, "tensor+sequence+selective") // 2**20
        102
    """
    return sum(activation_terms(shape, technique).values())


def extra_activation_terms(
    shape: TransformerShape, technique: Technique
) -> dict[str, int]:
    """Bytes that the first pipeline stage keeps besides its layers: Section 4.3.

    The mask of the embedding's dropout for each of p micro-batches; without pipeline
    parallelism (p = 1) also what comes after the layers. The paper gives them under
    sequence parallelism; without it, all but the logits are whole on each rank.

    The paper says that these terms are under 0.01% of the total for its 22B model. Its
    own formula gives about 0.57%, which a measurement of the model confirms.
    """
    _check_technique(technique)
    sb = shape.sequence * shape.micro_batch
    split = 1 if technique == "none" else shape.tensor_parallel
    ranks = split if "sequence" in technique else 1
    terms = {
        "embedding dropout mask": sb * shape.hidden * shape.pipeline_parallel // ranks
    }
    if shape.pipeline_parallel == 1:
        terms["final layer norm input"] = 2 * sb * shape.hidden // ranks
        terms["output projection input"] = 2 * sb * shape.hidden // ranks
        terms["32-bit logits"] = 4 * sb * shape.vocabulary // split
    return terms


def activation_bytes_first_stage(
    shape: TransformerShape, technique: Technique, *, interleaved_stages: int = 1
) -> int:
    """Bytes of activations on a rank of the first pipeline stage, which keeps most.

    With the 1F1B schedule the first stage holds p micro-batches of L/p layers each, so
    L layers whatever p is (Equation 5; with selective recomputation Equation 6). With
    m interleaved stages a rank it holds 1 + (p - 1)/(pm) times as much. The terms
    besides the layers are added.

    Args:
        interleaved_stages: m, 1 for the schedule without interleaving.

    Raises:
        ShapeError: interleaved_stages is not a whole number from 1 up.
    """
    m, p = interleaved_stages, shape.pipeline_parallel
    if not isinstance(m, int) or m < 1:
        raise ShapeError(
            f"interleaved_stages is {m!r}; it must be a whole number from 1 up"
        )
    layers = activation_bytes_per_layer(shape, technique) * shape.layers
    if m > 1:
        layers += layers * (p - 1) // (p * m)
    return layers + sum(extra_activation_terms(shape, technique).values())


def parameter_count(shape: TransformerShape) -> int:
    """Parameters of the whole model: `models.GPT`, whose output is its embedding.

    Each layer has 12h² weights and 13h biases and layer norm parameters; embeddings of
    v tokens and s positions, and a last layer norm, come on top.

    Example:
        >>> parameter_count(TransformerShape(160, 25600, 128, 2048, 1)) / 1e12
        1.0080387...
    """
    h = shape.hidden
    embeddings = (shape.vocabulary + shape.sequence) * h
    return shape.layers * (12 * h**2 + 13 * h) + embeddings + 2 * h


def training_state_bytes(shape: TransformerShape) -> dict[str, int]:
    """Bytes of weights, gradients and optimizer state of the whole model.

    The scheme: mixed precision with Adam, weights and gradients in 16 bits, and in 32
    bits a main copy of the weights and Adam's two moments, 16 bytes a parameter in all.
    Frameworks that add gradients up in 32 bits take 2 bytes more.
    """
    n_parameters = parameter_count(shape)
    return {
        "weights": 2 * n_parameters,
        "gradients": 2 * n_parameters,
        "optimizer": (4 + 4 + 4) * n_parameters,
    }


# -- FLOPs ---------------------------------------------------------------------------


def forward_flops_per_layer(shape: TransformerShape) -> dict[str, int]:
    """FLOPs of one layer's forward pass by product: Appendix A, with B the micro-batch.

    They add up to 24Bsh² + 4Bs²h.
    """
    linear = shape.micro_batch * shape.sequence * shape.hidden**2
    square = shape.micro_batch * shape.sequence**2 * shape.hidden
    return {
        "query, key, value": 6 * linear,
        "scores": 2 * square,
        "attention over values": 2 * square,
        "projection": 2 * linear,
        "MLP": 16 * linear,
    }


def model_flops(shape: TransformerShape) -> int:
    """FLOPs that a training step needs, forward and backward: Equation 7.

    72BLsh² (1 + s/(6h) + v/(12hL)); the backward pass takes twice the forward's.
    """
    layers = shape.layers * sum(forward_flops_per_layer(shape).values())
    logits = 2 * shape.micro_batch * shape.sequence * shape.hidden * shape.vocabulary
    return 3 * (layers + logits)


def hardware_flops(
    shape: TransformerShape, technique: Technique, *, early_stop: bool = True
) -> int:
    """FLOPs that a training step executes, recomputation included.

    Full recomputation runs the forward pass of every layer again, a third of what the
    layers take. Selective recomputation runs the two products of attention again, or,
    where the second run stops early, only the first: the last product's inputs are all
    that is needed.

    The paper's Equation 8 has s/(3h) where Appendix A, added up, gives s/(6h) + s/(18h)
    for both products, and the text says 2.7% for GPT-3 and 1.6% for MT-NLG where
    this function, like a count of what runs, gives 0.90% and 0.55%.

    Args:
        early_stop: the second run ends with the last tensor that is needed, as that
            of `checkpoint` does.
    """
    _check_technique(technique)
    forward = forward_flops_per_layer(shape)
    again = 0
    if technique == "full":
        again = sum(forward.values())
    elif "selective" in technique:
        again = forward["scores"]
        if not early_stop:
            again += forward["attention over values"]
    return model_flops(shape) + shape.layers * again


def _check_technique(technique: str) -> None:
    if technique not in TECHNIQUES:
        raise ShapeError(
            f"there is no technique {technique!r}; pass one of "
            f"{', '.join(map(repr, TECHNIQUES))}"
        )
