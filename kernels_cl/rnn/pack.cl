// Recurrent weights [gates, hidden, hidden] in the order in which the kernels of whole layers read them
// (rnn_sequence*.cl): panels, filled up with zeros, of
//   forward   [k: unit of the previous state][gates * 16]: columns gate * 16 + l for unit 16 p + l of panel p
//   backward  [k: row of the weight, gates * hidden of them][64]: columns l for unit 64 p + l
// Grid: panels; any local size.
#include "common/memory.clh"

kernel void rnn_pack(global const float* weight, global float* packed, int gates, int hidden, int backward) {
  const int p = get_group_id(0), depth = backward ? gates * hidden : hidden, width = backward ? 64 : gates * 16;
  for (int i = get_local_id(0); i < depth * width; i += get_local_size(0)) {
    const int k = i / width, l = i % width, unit = backward ? p * 64 + l : p * 16 + l % 16;
    const long at = backward ? (long)k * hidden + unit : ((long)(l / 16) * hidden + unit) * hidden + k;
    packed[(long)p * depth * width + i] = unit < hidden ? weight[at] : 0.0f;
  }
}
