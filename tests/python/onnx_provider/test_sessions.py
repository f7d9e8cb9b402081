"""Sessions as programs use them: several at once, several threads, bound memory, nodes that others run, bad input."""

import json
import threading

import numpy
import onnxruntime
import pytest
from onnx import TensorProto, helper

from .nets import NETS, Net
from .sessions import NAME, devices, differences, on_cpu, on_device, options


def small_net():
    n = Net()
    y = n("Relu", n.linear("x", 8, 4))
    return n.model({"x": (TensorProto.FLOAT, ["n", 8])}, y)


def test_a_device_says_what_it_is():
    described = devices()[0].ep_metadata
    assert described["ocl_device"] == "0"
    assert described["ocl_name"]
    assert described["ocl_platform"]


def test_threads_and_sessions_share_a_device():
    model, feed = NETS["resnet"]()
    sessions = [on_device(model), on_device(model)]
    inputs = [feed(batch) for batch in (1, 2, 3, 4)]
    wanted = [on_cpu(model).run(None, one) for one in inputs]
    failures = []

    def work(number):
        for i in range(10):
            session, case = sessions[(number + i) % 2], (number + i) % 4
            wrong = differences(session.run(None, inputs[case]), wanted[case], 1e-4, 1e-4)
            if wrong:
                failures.append(wrong)

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_nodes_that_the_device_does_not_run_are_left_to_others(tmp_path):
    """Det is in no row: what is before and behind it runs on the device."""
    n = Net()
    y = n("Exp", n("Unsqueeze", n("Det", n("Tanh", "x")), n.constant([1])))
    model = n.model({"x": (TensorProto.FLOAT, ["n", 3, 3])}, y)
    with pytest.raises(Exception, match="fallback"):
        on_device(model)
    how = options(alone=False)
    how.enable_profiling = True
    how.profile_file_prefix = str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(model.SerializeToString(), how)
    x = numpy.random.default_rng(0).normal(size=(5, 3, 3)).astype(numpy.float32)
    assert differences(session.run(None, {"x": x}), on_cpu(model).run(None, {"x": x}), 1e-5, 1e-6) is None
    with open(session.end_profiling()) as file:
        events = [event["args"] for event in json.load(file) if event.get("cat") == "Node"]
    ran = {(event["provider"], event["op_name"]) for event in events if "provider" in event}
    assert ("CPUExecutionProvider", "Det") in ran
    assert sum(provider == NAME and "Memcpy" not in name for provider, name in ran) == 2


def test_inputs_and_outputs_in_device_memory():
    session = on_device(small_net())
    x = numpy.random.default_rng(0).normal(size=(6, 8)).astype(numpy.float32)
    want = session.run(None, {"x": x})[0]
    binding = session.io_binding()
    info = devices()[0].memory_info(onnxruntime.OrtDeviceMemoryType.DEFAULT)
    bound = onnxruntime.OrtValue.ortvalue_from_numpy(x, "gpu", 0, info.device_vendor_id)
    assert bound.device_name() != "cpu"
    binding.bind_ortvalue_input("x", bound)
    binding.bind_output(session.get_outputs()[0].name, "cpu")
    session.run_with_iobinding(binding)
    assert differences([binding.get_outputs()[0].numpy()], [want], 0, 0) is None


def test_a_thousand_runs_in_threads_do_not_grow():
    import resource

    model, feed = NETS["bert"]()
    session, inputs = on_device(model), [feed(batch) for batch in (1, 2, 3)]

    def runs(count):
        def work():
            for i in range(count // 4):
                session.run(None, inputs[i % 3])

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    runs(200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs(1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # KiB


def test_bad_input_is_an_error_that_names_the_node():
    n = Net()
    y = n("Gather", n.constant(numpy.ones((4, 2), numpy.float32)), "i")
    session = on_device(n.model({"i": (TensorProto.INT64, ["n"])}, y))
    with pytest.raises(Exception, match=r"out of range|out of bounds"):
        session.run(None, {"i": numpy.array([1, 7])})
    assert session.run(None, {"i": numpy.array([1, -4])})[0].shape == (2, 2)  # the session goes on
    n = Net()
    model = n.model({"x": (TensorProto.FLOAT, ["n", "m"])}, n("Reshape", "x", n.constant([3, -1])))
    with pytest.raises(Exception, match="Reshape 'n0'"):
        on_device(model).run(None, {"x": numpy.ones((2, 2), numpy.float32)})


def test_a_branch_reads_what_the_device_made():
    """Subgraphs of If are asked for one by one; values from around them are inputs."""
    n = Net()
    scaled = n("Mul", "x", n.constant(numpy.array(2, numpy.float32)))
    total = n("ReduceSum", scaled, keepdims=0)
    positive = n("Greater", total, n.constant(numpy.array(0, numpy.float32)))
    result = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    branches = {
        key: helper.make_graph([helper.make_node(op, [scaled], ["b"])], key, [], [result])
        for key, op in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    y = n("If", positive, **branches)
    model = n.model({"x": (TensorProto.FLOAT, ["n"])}, y)
    session, reference = on_device(model, alone=False), on_cpu(model)
    for x in (numpy.array([1, 2], numpy.float32), numpy.array([-1, -2, 0.5], numpy.float32)):
        assert differences(session.run(None, {"x": x}), reference.run(None, {"x": x}), 1e-5, 1e-6) is None
