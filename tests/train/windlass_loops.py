"""The loops of the tests' scripts. Each is a function of a module, because ranks are started with it."""

from __future__ import annotations

from typing import Any

PIPELINE = ("embed", "layers.*", "norm", "head")


def losses(mesh: str, how: dict[str, Any], steps: int) -> list[float]:
    """Return the mean loss of each step of the small decoder. Every second step is clipped to a third of its norm."""
    from small_models import Decoder, Placed, cross_entropy, tokens  # noqa: PLC0415 - who collects need not

    from windlass import train  # noqa: PLC0415

    asked = {name: how[name] for name in ("precision", "ac") if name in how}
    planned = {name: how[name] for name in ("schedule", "loss_parallel", "positions") if name in how}
    found = []
    with train.init(mesh, **asked) as run:
        plan = train.Plan(pipeline=PIPELINE, **planned)
        model, optimizer = run.parallelize(
            lambda: (Placed if how.get("places") else Decoder)(how.get("layers", 2)), plan, lr=1e-2
        )
        data = run.data(tokens(100), global_batch=24, micro_batch=how.get("micro_batch"))
        for batch in run.steps(data, max_steps=steps):
            loss = run.backward(model, batch, cross_entropy)
            run.step(optimizer, clip=0.1 if batch.step % 2 else None, loss=loss)
            found.append(run.mean_loss(model, loss))
            if how.get("evaluates"):
                heard = run.evaluate(model, tokens(40), lambda *pair: 2 * cross_entropy(*pair), global_batch=8)
                assert 4 < heard < 12
    return found


def run_with_checkpoints(mesh: str, place: str, steps: int, how: dict[str, Any]) -> dict[str, Any]:
    """Run with checkpoints: return losses and samples by step, and sums of this rank's parameters at the end."""
    import os  # noqa: PLC0415
    import signal  # noqa: PLC0415

    import torch  # noqa: PLC0415
    from small_models import cross_entropy, tokens  # noqa: PLC0415

    from windlass import train  # noqa: PLC0415

    result: dict[str, Any] = {"losses": {}, "samples": {}, "code": 0}
    try:
        with train.init(mesh, report_every=0) as run:
            plan = train.Plan(pipeline=PIPELINE)
            groups = learning if how.get("frozen") else None
            model, optimizer = run.parallelize(lambda: build_decoder(how), plan, groups=groups, lr=1e-2)
            data = run.data(tokens(100), global_batch=12, workers=how.get("workers", 0))
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
            state = run.state(model, optimizer, data, schedule=schedule)
            checkpoints = run.checkpoint(place, state, every=how.get("every", "1000 steps"))
            for batch in checkpoints.resume().steps(steps):
                loss = run.backward(model, batch, cross_entropy)
                if how.get("signalled") == [run.world.rank, batch.step]:
                    os.kill(os.getpid(), signal.SIGTERM)
                run.step(optimizer, clip=1.0, loss=loss)
                schedule.step()
                result["losses"][batch.step] = run.mean_loss(model, loss)
                result["samples"][batch.step] = batch.indices
                if how.get("saves_and_ends_after") == run.steps_done:
                    checkpoints.save(blocking=True)
                    break
            result["sum"] = [float(each.detach().double().sum()) for each in local_parts(model)]
    except SystemExit as left:
        result["code"] = int(left.code)
    return result


def capture_stdout(mesh: str, place: str, steps: int, how: dict[str, Any]) -> str:
    """Return the stdout of this rank of `run_with_checkpoints`."""
    import contextlib  # noqa: PLC0415
    import io  # noqa: PLC0415

    with contextlib.redirect_stdout(io.StringIO()) as out:
        run_with_checkpoints(mesh, place, steps, how)
    return out.getvalue()


def build_decoder(how: dict[str, Any]) -> Any:
    """Build the small decoder; `frozen`: all of it but its head."""
    from small_models import Decoder, Placed  # noqa: PLC0415

    if "places" in how:
        return Placed(how.get("layers", 4), how["places"])
    model = Decoder(how.get("layers", 4), how.get("dropout", 0.0))
    if how.get("frozen"):
        model.requires_grad_(requires_grad=False)
        model.head.requires_grad_(requires_grad=True)
    return model


def learning(model: Any) -> list[dict[str, Any]]:
    return [{"params": [each for each in model.parameters() if each.requires_grad]}]


def count_whole_gradients(mesh: str) -> int:
    """Return the number of whole gradients on this rank when the second micro-batch is computed."""
    from small_models import Decoder, cross_entropy, tokens  # noqa: PLC0415
    from torch.distributed.fsdp import FSDPModule  # noqa: PLC0415

    from windlass import train  # noqa: PLC0415

    found = []
    with train.init(mesh, report_every=0) as run:
        model, optimizer = run.parallelize(Decoder, lr=1e-2)
        sharded = [each for each in model.module.modules() if isinstance(each, FSDPModule)]

        def looking(logits: Any, targets: Any) -> Any:
            parts = [
                part
                for each in sharded
                for group in each._get_fsdp_state()._fsdp_param_groups
                for part in group.fsdp_params
            ]
            wholes = [getattr(part, "_unsharded_param", None) for part in parts]
            found.append(
                sum(part.unsharded_accumulated_grad is not None for part in parts)
                + sum(whole is not None and whole.grad is not None for whole in wholes)
            )
            return cross_entropy(logits, targets)

        for batch in run.steps(run.data(tokens(100), global_batch=24, micro_batch=3), max_steps=1):
            loss = run.backward(model, batch, looking)
            run.step(optimizer, loss=loss)
    return found[1]


def is_unchanged_by_nan(mesh: str, clip: float | None) -> bool:
    """Return whether parameters are unchanged after a step with NaN gradients and a finite loss."""
    import torch  # noqa: PLC0415
    from small_models import Decoder, cross_entropy, tokens  # noqa: PLC0415

    from windlass import train  # noqa: PLC0415

    def steep(logits: Any, targets: Any) -> Any:
        return cross_entropy(logits, targets) + (0 * logits.sum()).abs().sqrt()

    with train.init(mesh, report_every=0, not_finite="skip") as run:
        model, optimizer = run.parallelize(Decoder, train.Plan(pipeline=PIPELINE), lr=1e-2)
        before = [each.detach().clone() for each in local_parts(model)]
        for batch in run.steps(run.data(tokens(100), global_batch=24), max_steps=1):
            loss = run.backward(model, batch, steep)
            assert bool(torch.isfinite(loss))
            run.step(optimizer, clip=clip, loss=loss)
        return all(torch.equal(*pair) for pair in zip(before, local_parts(model), strict=True))


def run_with_trackers(report_to: str, place: str, steps: int, env: dict[str, str]) -> None:
    """Run with checkpoints and trackers that report every second step."""
    import os  # noqa: PLC0415

    from small_models import Decoder, cross_entropy, tokens  # noqa: PLC0415

    from windlass import train  # noqa: PLC0415

    os.environ |= {"WINDLASS_JOB_NAME": "digits-7", **env}
    with train.init(report_every=2, report_to=report_to) as run:
        model, optimizer = run.parallelize(Decoder, lr=1e-2)
        checkpoints = run.checkpoint(place, run.state(model, optimizer, run.data(tokens(100), global_batch=8)))
        for batch in checkpoints.resume().steps(steps):
            run.step(optimizer, loss=run.backward(model, batch, cross_entropy))


def local_parts(model: Any) -> list[Any]:
    return [each.to_local() if hasattr(each, "to_local") else each for each in model.parameters()]


def refused(mesh: str, how: dict[str, Any]) -> dict[str, Any]:
    """Run with a mistake; return the stderr of this rank, and its exit code."""
    import contextlib  # noqa: PLC0415
    import io  # noqa: PLC0415

    code, err = 0, io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            _run_of(mesh, how)
    except SystemExit as left:
        code = int(left.code or 0)
    return {"code": code, "err": err.getvalue()}


def _run_of(mesh: str, how: dict[str, Any]) -> None:
    from small_models import cross_entropy, tokens  # noqa: PLC0415

    from windlass import train  # noqa: PLC0415

    with train.init(mesh, report_every=0) as run:
        plan = train.Plan(pipeline=how.get("pipeline", PIPELINE), tensor=how.get("tensor", {}))
        model, optimizer = run.parallelize(lambda: build_decoder(how), plan, lr=1e-2)
        dataset = tokens(100, how.get("length", 16))
        data = run.data(dataset, how.get("global_batch", 12), micro_batch=how.get("micro_batch"))
        checkpoints = run.checkpoint(how["place"], run.state(model, optimizer, data))
        for batch in checkpoints.resume().steps(2):
            for _ in range(how.get("steps_taken", 1)):
                loss = run.backward(model, batch, cross_entropy)
                run.step(optimizer, loss=loss * float("nan") if how.get("nan") else loss)
