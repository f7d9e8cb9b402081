"""GGUF blocks and files, written and read number by number: what the package's own code is compared with."""

import struct

import numpy as np

BLOCKS = {"q8_0": (32, 34), "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24),
          "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210)}  # fmt: skip
NUMBERS = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12, "q5_k": 13,
           "q6_k": 14, "bf16": 30}  # fmt: skip


def random_rows(rows, columns, form, seed=0):
    """Rows of blocks with random codes and sensible scales, uint8 [rows, bytes]."""
    generator = np.random.default_rng(seed)
    weights, size = BLOCKS[form]
    blocks = generator.integers(0, 256, (rows, columns // weights, size), dtype=np.uint8)
    places = {"q8_0": [0], "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q6_k": [208]}.get(form, [0, 2])
    for at in places:
        scale = (generator.random(blocks.shape[:2]) / 50 + 0.002).astype(np.float16) / (16 if columns >= 256 else 1)
        blocks[..., at : at + 2] = scale.astype(np.float16)[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


def _half(block, at):
    return float(block[at : at + 2].view(np.float16)[0])


def _k_scale(table, i):
    """Scale and minimum of the i-th 32 weights, from 12 bytes of 6-bit numbers."""
    if i < 4:
        return table[i] & 63, table[i + 4] & 63
    return (table[i + 4] & 15) + (table[i - 4] // 64) * 16, table[i + 4] // 16 + (table[i] // 64) * 16


def _value(form, block, b, i):
    """Weight i of a block, in float64. b: its bytes as numbers of Python."""
    if form == "q8_0":
        return _half(block, 0) * float(block[2:].view(np.int8)[i])
    if form in ("q4_0", "q4_1", "q5_0", "q5_1"):
        first = {"q4_0": 2, "q4_1": 4, "q5_0": 6, "q5_1": 8}[form]
        code = b[first + i % 16] // 16 if i >= 16 else b[first + i % 16] % 16
        if form.startswith("q5"):
            high = int.from_bytes(bytes(b[first - 4 : first]), "little")
            code += (high >> i & 1) * 16
        if form.endswith("0"):
            return _half(block, 0) * (code - (8 if form == "q4_0" else 16))
        return _half(block, 0) * code + _half(block, 2)
    if form in ("q4_k", "q5_k"):
        scale, minimum = _k_scale(b[4:16], i // 32)
        byte = b[(16 if form == "q4_k" else 48) + i // 64 * 32 + i % 32]
        code = byte // 16 if i // 32 % 2 else byte % 16
        if form == "q5_k":
            code += (b[16 + i % 32] >> i // 32 & 1) * 16
        return _half(block, 0) * scale * code - _half(block, 2) * minimum
    half, part, place = i // 128, i % 128 // 32, i % 32
    byte = b[half * 64 + part % 2 * 32 + place]
    code = (byte // 16 if part >= 2 else byte % 16) + (b[128 + half * 32 + place] >> 2 * part & 3) * 16
    scale = int(block[192:208].view(np.int8)[i // 16])
    return _half(block, 208) * scale * (code - 32)


def decode(rows, form):
    """The weights of rows of blocks, float64 [rows, k]."""
    weights, size = BLOCKS[form]
    blocks = rows.reshape(-1, size)
    values = [
        [_value(form, block, b, i) for i in range(weights)] for block, b in zip(blocks, blocks.tolist(), strict=True)
    ]
    return np.array(values).reshape(rows.shape[0], -1)


def encode(weights, form):
    """Weights [rows, k] as q8_0, q4_0, or as f32, f16, bf16: uint8 [rows, bytes]."""
    weights = np.ascontiguousarray(weights, dtype=np.float32)
    if form == "f32":
        return weights.view(np.uint8)
    if form == "f16":
        return weights.astype(np.float16).view(np.uint8)
    if form == "bf16":
        return (weights.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    groups = weights.reshape(weights.shape[0], -1, 32)
    largest = np.abs(groups).max(-1, keepdims=True)
    scale = (largest / (127 if form == "q8_0" else 7)).astype(np.float16)
    codes = np.round(groups / np.where(scale == 0, 1, scale.astype(np.float32)))
    if form == "q8_0":
        body = codes.clip(-127, 127).astype(np.int8).view(np.uint8)
    else:
        codes = (codes.clip(-8, 7) + 8).astype(np.uint8)
        body = codes[..., :16] | codes[..., 16:] << 4
    return np.concatenate((scale.view(np.uint8), body), -1).reshape(weights.shape[0], -1)


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value_of_metadata(value):
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    inner = 8 if isinstance(value[0], str) else 6 if isinstance(value[0], float) else 4
    packed = b"".join(_string(v) if inner == 8 else struct.pack("<f" if inner == 6 else "<I", v) for v in value)
    return struct.pack("<IIQ", 9, inner, len(value)) + packed


def write(path, metadata, tensors):
    """A GGUF file. `tensors`: name to (shape, form, uint8 array of rows)."""
    head, body = [], bytearray()
    for name, (shape, form, rows) in tensors.items():
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head.append(_string(name) + dims + struct.pack("<IQ", NUMBERS[form], len(body)))
        body += rows.tobytes()
        body += bytes(-len(body) % 32)
    keys = b"".join(_string(key) + _value_of_metadata(value) for key, value in metadata.items())
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + keys + b"".join(head)
    path.write_bytes(start + bytes(-len(start) % 32) + bytes(body))
