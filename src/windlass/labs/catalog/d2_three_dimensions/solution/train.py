"""A decoder on any mesh of pipeline stages, replicas and tensor parallel ranks."""

import torch
from model import WordDecoder, loss_of, sentences
from pieces import PieceReport

from windlass import train

STEPS = 6

PLAN = train.Plan(
    pipeline=("words", "blocks.*", "last", "scores"),
    tensor={
        "words": "embedding",
        "blocks.*.before_attention": "sequence",
        "blocks.*.query": "colwise",
        "blocks.*.key": "colwise",
        "blocks.*.value": "colwise",
        "blocks.*.mix": "rowwise",
        "blocks.*.before_layers": "sequence",
        "blocks.*.widen": "colwise",
        "blocks.*.narrow": "rowwise",
        "last": "sequence",
        "scores": "head",
    },
)


def main() -> None:
    torch.set_num_threads(1)
    with train.init(report_every=1000) as run:
        model, optimizer = run.parallelize(WordDecoder, PLAN, torch.optim.AdamW, lr=3e-3)
        report = PieceReport(run.mesh, model)
        data = run.data(sentences(), global_batch=16, micro_batch=2)
        for batch in run.steps(data, STEPS):
            with report.counting():
                loss = run.backward(model, batch, loss_of)
            run.step(optimizer, loss=loss)
            report.step(loss)
        report.write()


if __name__ == "__main__":
    main()
