"""What the onnx package knows about operators: schemas, element types of results, function bodies."""

import functools
from collections.abc import Sequence
from typing import Any

import onnx
from onnx import FunctionProto, NodeProto, TypeProto, defs

from . import types

_TENSOR_NAMES = {f"tensor({types.name_of(element).lower()})": element for element in range(1, 27)}


@functools.lru_cache(maxsize=4096)
def schema_of(domain: str, operator: str, opset: int) -> Any:
    """The schema of an operator at an opset, or None."""
    try:
        return defs.get_schema(operator, max_inclusive_version=opset, domain=domain)
    except defs.SchemaError:
        return None


def newest_opset(domain: str = "") -> int:
    """The newest opset of a domain that the onnx package knows."""
    return (
        int(defs.onnx_opset_version())
        if domain == ""
        else max(
            (schema.since_version for schema in defs.get_all_schemas_with_history() if schema.domain == domain),
            default=1,
        )
    )


def result_elements(schema: Any, node: NodeProto, attributes: dict[str, Any], inputs: Sequence[int]) -> list[int]:
    """Element types of a node's outputs as far as the schema's type variables tell; 0 elsewhere."""
    explicit = next((proto.t.data_type for proto in node.attribute if proto.HasField("t")), 0)
    explicit = explicit or next(
        (attributes[key] for key in ("to", "dtype", "output_dtype", "output_datatype") if attributes.get(key)), 0
    )
    if schema is None:
        return [0] * len(node.output)
    variables: dict[str, int] = {}
    formal = schema.inputs
    for index, element in enumerate(inputs):
        if element and formal:
            variables.setdefault(formal[min(index, len(formal) - 1)].type_str, element)
    elements = []
    for index in range(len(node.output)):
        name = schema.outputs[min(index, len(schema.outputs) - 1)].type_str if schema.outputs else ""
        known = variables.get(name) or _TENSOR_NAMES.get(name, 0)
        elements.append(known or (explicit if index == 0 else 0))
    return elements


def function_body(schema: Any, node: NodeProto, opset: int, inputs: Sequence[int]) -> FunctionProto | None:
    """The operator written in other operators, for an import of `opset`; None if the schema has no such text."""
    if schema is None:
        return None
    versions = [version for version in schema.function_opset_versions if version <= max(opset, schema.since_version)]
    if versions:
        text = schema.get_function_with_opset_version(max(versions))
        return _parse(text)
    versions = list(schema.context_dependent_function_opset_versions)
    versions = [version for version in versions if version <= opset] or versions
    if not versions:
        return None
    kinds = [_type_of(element) for element in inputs]
    text = schema.get_context_dependent_function_with_opset_version(
        max(versions), node.SerializeToString(), [kind.SerializeToString() for kind in kinds]
    )
    return _parse(text)


def _parse(text: Any) -> FunctionProto | None:
    if not isinstance(text, (bytes, str)):
        return text if text is None or text.node else None
    function = FunctionProto()
    function.ParseFromString(text)
    return function if function.node else None


def _type_of(element: int) -> TypeProto:
    return onnx.helper.make_tensor_type_proto(element, None) if element else TypeProto()
