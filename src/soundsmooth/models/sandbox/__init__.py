"""The process that runs an ONNX file which nobody trusts: its program, its confinement, its pipe, and our end of it.

`frames`, `confine` and `server` run in that process. They import Python's library, NumPy, onnxruntime and
`models.onnx_session`, and nothing else of soundsmooth. `client` is our end.
"""
