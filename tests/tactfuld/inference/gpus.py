"""llama.cpp's answers and words on machines with GPUs, as its source writes them."""

from tactfuld.inference.offload import GpuDevice, GpuSupport

PROCESSOR_ONLY = GpuSupport(supported=False)
NO_DRIVER = GpuSupport(supported=False, backends=("CUDA",))
H200 = GpuDevice("CUDA0", "NVIDIA H200", 150_000_000_000)
SECOND = GpuDevice("CUDA1", "NVIDIA H200", 150_000_000_000)
ONE_GPU = GpuSupport(supported=True, backends=("CUDA",), devices=(H200,))
TWO_GPUS = GpuSupport(supported=True, backends=("CUDA",), devices=(H200, SECOND))


def assigned(*devices: str) -> list[str]:
    """What is logged while layers are assigned to these devices, one after the other."""
    return [
        f"load_tensors: layer {number:3} assigned to device {name}, is_swa = 0\n"
        for number, name in enumerate(devices)
    ]
