"""Host functions in a stream, without Python inside: the driver's thread posts a semaphore and returns."""

import ctypes

import torch

libc = ctypes.CDLL(None)
SEMAPHORE_BYTES = 64  # sem_t is 32 on x86-64


class Semaphore:
    """A POSIX semaphore that a host function can post."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(SEMAPHORE_BYTES)
        libc.sem_init(self._memory, 0, 0)

    def post_from(self, stream: torch.cuda.Stream) -> None:
        """Let `stream` post it when everything launched so far is done. Raises RuntimeError."""
        function = ctypes.cast(libc.sem_post, ctypes.c_void_p)
        driver = ctypes.CDLL("libcuda.so.1")
        status = driver.cuLaunchHostFunc(ctypes.c_void_p(stream.cuda_stream), function, self._memory)
        if status:
            raise RuntimeError(f"cuLaunchHostFunc: error {status}")

    def wait(self) -> None:
        """Until it is posted. Other threads run meanwhile."""
        libc.sem_wait(self._memory)
