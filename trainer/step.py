"""One training step as one compiled graph: forward, backward, unscale, overflow, clip, AdamW.

With accumulation the step is two graphs: `Gather` adds the gradients of a micro batch to buffers, `Apply`
updates once from their sum, so that a device group would exchange gradients once per update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops

from doctor.trainer.arguments import TrainingArguments
from doctor.trainer.monitors import Seen, Shadow
from doctor.trainer.probes import Elements, order, places
from doctor.trainer.schedule import Schedule


@dataclass(frozen=True)
class Rates:
    """What AdamW needs of an update, with the bias correction folded in.

    The kernel computes p -= lr' (m / (sqrt(v) + eps') + decay' p). With t updates done, this one included,
    lr' = lr sqrt(1 - beta2^t) / (1 - beta1^t), eps' = eps sqrt(1 - beta2^t) and decay' = decay lr / lr' make it
    Loshchilov & Hutter's decoupled AdamW exactly as torch computes it.
    """

    rate: float
    epsilon: float
    decay: float

    @classmethod
    def of(cls, args: TrainingArguments, learning_rate: float, updates: int) -> Rates:
        first = 1 - args.adam_beta1**updates
        second = (1 - args.adam_beta2**updates) ** 0.5
        factor = second / first
        return cls(learning_rate * factor, args.adam_epsilon * second, args.weight_decay / factor)


def decays(name: str, parameter: Parameter) -> bool:
    """Weight decay is for matrices: not for norms and biases, which are vectors."""
    return bool(parameter.ndim >= 2) and not name.endswith("bias")


class AdamW(nn.Cell):  # type: ignore[misc]
    """State and update of every parameter. The gradients come with a factor that unscales and clips them at once."""

    def __init__(self, parameters: Sequence[Parameter], args: TrainingArguments) -> None:
        super().__init__(auto_prefix=False)
        self.parameters = ParameterTuple(parameters)
        self.m = _zeros_like(parameters, "adam_m")
        self.v = _zeros_like(parameters, "adam_v")
        self.decayed = tuple(decays(item.name, item) for item in parameters)
        self.beta1, self.beta2 = args.adam_beta1, args.adam_beta2
        self.kernel = ops.AdamWeightDecay()
        if args.optimizer_offload:
            # The update runs on the host, where its states then stay; `assemble` refuses it where there is no device.
            self.kernel.set_device("CPU")
        self.cast = ops.Cast()
        self.types = tuple(item.dtype for item in parameters)
        self.none = Tensor(0.0, ms.float32)
        self.count = len(self.parameters)

    def construct(self, gradients: Any, factor: Any, rate: Any, epsilon: Any, decay: Any) -> Any:
        for i in range(self.count):
            share = decay if self.decayed[i] else self.none
            # The kernel takes a gradient in the weight's own type only; unscaled and clipped it fits into FP16.
            gradient = self.cast(self.cast(gradients[i], ms.float32) * factor, self.types[i])
            self.kernel(
                self.parameters[i],
                self.m[i],
                self.v[i],
                rate,
                self.beta1,
                self.beta2,
                epsilon,
                share,
                gradient,
            )
        return rate


class Measure(nn.Cell):  # type: ignore[misc]
    """Gradient norm over all parameters, the factor that unscales and clips: max_norm / max(norm, max_norm), and, where
    `watched`, the squared norm of each gradient as a vector."""

    def __init__(self, max_norm: float, watched: bool) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.watched = watched
        self.stack = ops.Stack()
        self.total = ops.ReduceSum()
        self.square = ops.Square()
        self.sqrt = ops.Sqrt()
        self.maximum = ops.Maximum()
        self.cast = ops.Cast()

    def construct(self, gradients: Any, scale: Any) -> Any:
        squares = 0.0
        parts: Any = ()
        for gradient in gradients:
            # The square of a scaled FP16 gradient would leave FP16's range: always summed in FP32. Rows first: the sum
            # over all axes at once is one scalar loop on the CPU back end, twenty times slower.
            square = self.square(self.cast(gradient, ms.float32))
            part = self.total(self.total(square, -1))
            squares = squares + part
            if self.watched:
                parts += (part,)
        norm = self.sqrt(squares) / scale
        vector = self.stack(parts) if self.watched else norm
        if self.max_norm > 0:
            return norm, self.max_norm / self.maximum(norm, self.max_norm) / scale, vector
        return norm, 1.0 / scale, vector


class _Watched(nn.Cell):  # type: ignore[misc]
    """Squared norms, then elements of gradients; what it is given first alone where not `watched`.

    Gradients only: of a parameter that a graph both shows and updates MindSpore makes a copy, whole, in each step.
    """

    def __init__(self, parameters: Sequence[Parameter], watched: bool) -> None:
        super().__init__(auto_prefix=False)
        self.watched = watched
        self.elements = Elements(parameters)
        self.join = ops.Concat()

    def construct(self, squares: Any, gradients: Any) -> Any:
        if not self.watched:
            return squares
        return self.join((squares, self.elements(gradients)))


class Peek(nn.Cell):  # type: ignore[misc]
    """Elements of parameters as they are between two graphs; at the places of others (`like`) where they go together."""

    def __init__(self, parameters: Sequence[Parameter], like: Optional[Sequence[Parameter]] = None) -> None:
        super().__init__(auto_prefix=False)
        self.parameters = ParameterTuple(parameters)
        self.elements = Elements(parameters if like is None else like)

    def construct(self) -> Any:
        return self.elements(self.parameters)


class _ScaledLoss(nn.Cell):  # type: ignore[misc]
    """Loss x scale, whose gradient is taken, and the loss itself."""

    def __init__(self, loss: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.loss = loss

    def construct(self, ids: Any, labels: Any, share: Any, scale: Any) -> Any:
        value = self.loss(ids, labels, share)
        return value * scale, value


class _Gradients(nn.Cell):  # type: ignore[misc]
    """Loss, and gradients of loss x scale, of one micro batch."""

    def __init__(self, loss: nn.Cell, parameters: ParameterTuple) -> None:
        super().__init__(auto_prefix=False)
        self.both = ms.value_and_grad(_ScaledLoss(loss), None, parameters, has_aux=True)

    def construct(self, ids: Any, labels: Any, share: Any, scale: Any) -> Any:
        (_, value), gradients = self.both(ids, labels, share, scale)
        return value, gradients


class Exchange(nn.Cell):  # type: ignore[misc]
    """The sum of each gradient over the workers of a cluster, in one message, in FP32; alone, the gradients as they are."""

    def __init__(self, parameters: Sequence[Parameter], shared: bool) -> None:
        super().__init__(auto_prefix=False)
        self.shared = shared
        self.shapes = tuple(tuple(item.shape) for item in parameters)
        self.sizes = tuple((int(item.size),) for item in parameters)
        self.starts = tuple((sum(int(item.size) for item in parameters[:number]),) for number in range(len(parameters)))
        self.count = len(self.shapes)
        self.join = ops.Concat()
        self.slice = ops.Slice()
        self.reshape = ops.Reshape()
        self.cast = ops.Cast()
        if shared:
            self.sum = ops.AllReduce()

    def construct(self, gradients: Any) -> Any:
        if not self.shared:
            return gradients
        flat: Any = ()
        for gradient in gradients:
            flat += (self.cast(self.reshape(gradient, (-1,)), ms.float32),)
        total = self.sum(self.join(flat))
        apart: Any = ()
        for i in range(self.count):
            apart += (self.reshape(self.slice(total, self.starts[i], self.sizes[i]), self.shapes[i]),)
        return apart


class Total(nn.Cell):  # type: ignore[misc]
    """The sum of a number over the workers of a cluster."""

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.sum = ops.AllReduce()

    def construct(self, value: Any) -> Any:
        return self.sum(value)


class FusedStep(nn.Cell):  # type: ignore[misc]
    """The whole step. `guarded` leaves everything as it was when the gradients are not finite."""

    def __init__(
        self, loss: nn.Cell, optimizer: AdamW, args: TrainingArguments, guarded: bool, shared: bool = False
    ) -> None:
        super().__init__(auto_prefix=False)
        self.gradients = _Gradients(loss, optimizer.parameters)
        self.exchange = Exchange(optimizer.parameters, shared)
        self.optimizer = optimizer
        self.measure = Measure(args.max_grad_norm, args.monitors)
        self.watched = _Watched(optimizer.parameters, args.monitors)
        self.guarded = guarded
        self.finite = ops.IsFinite()

    def construct(self, ids: Any, labels: Any, share: Any, scale: Any, rate: Any, epsilon: Any, decay: Any) -> Any:
        value, gradients = self.gradients(ids, labels, share, scale)
        gradients = self.exchange(gradients)
        norm, factor, squares = self.measure(gradients, scale)
        # Before the update, which each gradient then need not outlive.
        watched = self.watched(squares, gradients)
        if self.guarded:
            if self.finite(norm):
                self.optimizer(gradients, factor, rate, epsilon, decay)
        else:
            self.optimizer(gradients, factor, rate, epsilon, decay)
        return value, norm, watched


class Gather(nn.Cell):  # type: ignore[misc]
    """Adds the gradients of one micro batch to `sums`; where `watched`, also shows elements of them."""

    def __init__(self, loss: nn.Cell, parameters: ParameterTuple, watched: bool) -> None:
        super().__init__(auto_prefix=False)
        self.gradients = _Gradients(loss, parameters)
        self.sums = _zeros_like(parameters, "gradient_sum")
        self.watched = watched
        self.elements = Elements(parameters)
        self.add = ops.AssignAdd()
        self.cast = ops.Cast()
        self.count = len(parameters)

    def construct(self, ids: Any, labels: Any, share: Any, scale: Any) -> Any:
        value, gradients = self.gradients(ids, labels, share, scale)
        for i in range(self.count):
            self.add(self.sums[i], self.cast(gradients[i], ms.float32))
        if not self.watched:
            return value, value
        return value, self.elements(gradients)


class Apply(nn.Cell):  # type: ignore[misc]
    """One update from the summed gradients, which it clears."""

    def __init__(
        self, sums: ParameterTuple, optimizer: AdamW, args: TrainingArguments, guarded: bool, shared: bool = False
    ) -> None:
        super().__init__(auto_prefix=False)
        self.sums = sums
        self.exchange = Exchange(optimizer.parameters, shared)
        self.optimizer = optimizer
        self.measure = Measure(args.max_grad_norm, args.monitors)
        # Sums of this process alone can be looked at before; with others they are known only in here.
        self.watched = _Watched(optimizer.parameters, args.monitors and shared)
        self.guarded = guarded
        self.finite = ops.IsFinite()
        self.assign = ops.Assign()
        self.zeros = ops.ZerosLike()
        self.count = len(sums)

    def construct(self, scale: Any, rate: Any, epsilon: Any, decay: Any) -> Any:
        gradients = self.exchange(self.sums)
        norm, factor, squares = self.measure(gradients, scale)
        if self.guarded:
            if self.finite(norm):
                self.optimizer(gradients, factor, rate, epsilon, decay)
        else:
            self.optimizer(gradients, factor, rate, epsilon, decay)
        watched = self.watched(squares, gradients)
        for i in range(self.count):
            self.assign(self.sums[i], self.zeros(self.sums[i]))
        return norm, watched


def _zeros_like(parameters: Sequence[Parameter], prefix: str) -> ParameterTuple:
    """FP32 state for each parameter, whatever type it is stored in."""
    return ParameterTuple(
        Parameter(Tensor(np.zeros(item.shape, np.float32)), name=f"{prefix}.{item.name}", requires_grad=False)
        for item in parameters
    )


@dataclass(frozen=True)
class Outcome:
    """What a step came to. `applied` is False when the update was dropped for overflow; `rate` is that of the update."""

    loss: float
    grad_norm: float
    applied: bool
    rate: float = 0.0
    seen: Optional[Seen] = None

    @property
    def overflow(self) -> bool:
        return not np.isfinite(self.grad_norm)


class Stepper:
    """Runs updates: micro batches in, `Outcome` out. The host keeps rate and scale, the graph everything large."""

    def __init__(
        self,
        network: nn.Cell,
        loss: nn.Cell,
        args: TrainingArguments,
        schedule: Schedule,
        guarded: bool,
        shared: bool = False,
    ) -> None:
        self.args, self.schedule, self.guarded = args, schedule, guarded
        parameters = network.trainable_params()
        self.optimizer = AdamW(parameters, args)
        #: of the elements that a step shows, the place of each weight's
        self.order = np.array(order(parameters))
        self.micro_batches = args.gradient_accumulation_steps
        #: with other workers the loss of a step is that of all
        self.total = Total() if shared else None
        if self.micro_batches == 1:
            self.fused = FusedStep(loss, self.optimizer, args, guarded, shared)
        else:
            self.gather = Gather(loss, self.optimizer.parameters, args.monitors)
            self.apply = Apply(self.gather.sums, self.optimizer, args, guarded, shared)
            self.sums = Peek(self.gather.sums, parameters)
        self.weights = Peek(self.optimizer.parameters)

    def run(self, batches: Sequence[tuple[Any, Any]], share: float, scale: float, updates: int) -> Outcome:
        """One update from micro batches of (ids, labels); `updates` counts those done before."""
        rate = self.schedule.at(updates)
        rates = Rates.of(self.args, rate, updates + 1)
        numbers = [_scalar(value) for value in (scale, rates.rate, rates.epsilon, rates.decay)]
        of_all = _scalar(share)
        total, parts = 0.0, []
        if self.micro_batches == 1:
            ids, labels = batches[0]
            loss, norm, watched = self.fused(Tensor(ids), Tensor(labels), of_all, *numbers)
            total = float(loss.asnumpy())
        else:
            for ids, labels in batches:
                loss, shown = self.gather(Tensor(ids), Tensor(labels), of_all, numbers[0])
                total += float(loss.asnumpy())
                if self.args.monitors:
                    parts.append((self._elements(shown), self._elements(self.sums())))
            norm, watched = self.apply(*numbers)
        if self.total is not None:
            total = float(self.total(_scalar(total)).asnumpy())
        grad_norm = float(norm.asnumpy())
        seen = None
        if self.args.monitors:
            count = len(self.order)
            shown = watched.asnumpy()
            gradients = shown[count:][self.order] if len(shown) > count else parts[-1][1]
            seen = Seen(shown[:count], gradients, self._elements(self.weights()), tuple(parts))
        return Outcome(total, grad_norm, bool(np.isfinite(grad_norm)) or not self.guarded, rate, seen)

    def _elements(self, shown: Tensor) -> Any:
        """What `Elements` gave, by weight."""
        return shown.asnumpy()[self.order]

    def shadow(self) -> Shadow:
        """The present state of the elements that the steps show."""
        weights = self.optimizer.parameters
        at = places(weights)

        def elements(tensors: Any) -> Any:
            return np.array([float(item.asnumpy()[place]) for item, place in zip(tensors, at)])

        decayed = np.array([decays(item.name, item) for item in weights])
        moments = elements(self.optimizer.m), elements(self.optimizer.v)
        return Shadow(tuple(item.name for item in weights), decayed, elements(weights), *moments)


def _scalar(value: float) -> Tensor:
    return Tensor(np.float32(value))
