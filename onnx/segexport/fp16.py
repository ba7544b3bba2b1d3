def to_fp16(model, graph):
    raise NotImplementedError
