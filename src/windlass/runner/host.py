"""The far end of the pipe."""


def serve(root: str) -> int:
    raise NotImplementedError
