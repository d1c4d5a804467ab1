"""A causal language model of transformers as the ONNX graph that `conductor_plugin.planners.decoder` runs."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conductor_plugin.errors import InputError

OPSET = 17


def write_onnx(model: Any, path: Path, precision: str) -> None:
    """Write `model` (float32, eager attention) with its cache as input and output; see `decoder` for the shapes.

    `precision` is that of the weights on disk: fp32, fp16 (computed in fp32), or int8 (matrix products of whole
    numbers). InputError `export_kind` for a model whose cache is not one key and one value a layer.
    """
    import torch

    layers = model.config.num_hidden_layers
    heads = getattr(model.config, "num_key_value_heads", None) or model.config.num_attention_heads
    size = getattr(model.config, "head_dim", None) or model.config.hidden_size // model.config.num_attention_heads
    if model.config.model_type != "llama":
        raise InputError(f"only Llamas are exported, not a {model.config.model_type}", code="export_kind")
    with _quiet(), torch.no_grad():
        # By tracing: torch's newer exporter (dynamo=True) gives the same graph and takes 25 times as long.
        torch.onnx.export(
            _with_cache(model),
            (torch.zeros(1, 7, dtype=torch.long), torch.zeros(2 * layers, 1, heads, 5, size)),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=["ids", "past"],
            output_names=["logits", "present"],
            dynamic_axes={"ids": {1: "new"}, "past": {3: "before"}, "present": {3: "all"}},
        )
    if precision == "fp16":
        _halve(path)
    elif precision == "int8":
        _quantize(path)


def _with_cache(model: Any) -> Any:
    """The model as a function of token ids and one tensor of all keys and values."""
    import torch
    from transformers import DynamicCache

    class WithCache(torch.nn.Module):  # type: ignore[misc]  # torch exports nothing but modules
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, past: Any) -> Any:
            cache = DynamicCache()
            for layer in range(past.shape[0] // 2):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            before, new = past.shape[3], ids.shape[1]
            positions = torch.arange(before, before + new)
            unseen = torch.arange(before + new)[None, :] > positions[:, None]
            mask = torch.zeros(new, before + new).masked_fill(unseen, torch.finfo(torch.float32).min)
            out = self.model(
                input_ids=ids,
                attention_mask=mask[None, None],
                position_ids=positions[None],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            present = [part for layer in out.past_key_values.layers for part in (layer.keys, layer.values)]
            return out.logits[:, -1], torch.stack(present)

    return WithCache().eval()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of its own future, and of each constant that it traces."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _halve(path: Path) -> None:
    """Keep the large weights as float16, each cast back to float32 where the graph uses it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph_model = onnx.load(path)
    graph = graph_model.graph
    casts = []
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) > 1:
            name, half = tensor.name, f"{tensor.name}_half"
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float16"), half))
            casts.append(helper.make_node("Cast", [half], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]  # which would still say float32
    onnx.save(graph_model, path)


def _quantize(path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quiet():
        quantize_dynamic(path, path, weight_type=QuantType.QInt8)
