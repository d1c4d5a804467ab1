"""Separable CMA-ES (Ros and Hansen 2008): evolution with a covariance matrix that is diagonal.

The step size follows the length of the path that the mean takes, each coordinate's variance follows the
successful steps; time and memory are linear in the number of coordinates.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class SeparableCMAES:
    """Maximises a noisy score: `ask` for candidates, `tell` their scores, and `mean` is the best guess."""

    def __init__(self, mean: "Array", sigma: float, population: int, seed: int = 0) -> None:
        import numpy as np

        n = len(mean)
        self.mean, self.sigma, self.population = mean.astype(float), sigma, population
        self.random = np.random.default_rng(seed)
        self.variance, self.path, self.sigma_path = np.ones(n), np.zeros(n), np.zeros(n)
        weights = np.log((population + 1) / 2) - np.log(np.arange(1, population // 2 + 1))
        self.weights = weights / weights.sum()
        parents = self.parents = 1 / (self.weights**2).sum()
        # Hansen's standard rates; those of the variances are (n + 2) / 3 times as large as for a full matrix.
        self.rate = (4 + parents / n) / (n + 4 + 2 * parents / n)
        self.sigma_rate = (parents + 2) / (n + parents + 5)
        self.damping = 1 + 2 * max(0.0, np.sqrt((parents - 1) / (n + 1)) - 1) + self.sigma_rate
        faster = (n + 2) / 3
        self.one = min(1.0, faster * 2 / ((n + 1.3) ** 2 + parents))
        self.many = min(1 - self.one, faster * 2 * (parents - 2 + 1 / parents) / ((n + 2) ** 2 + parents))
        self.expected = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self.generation = 0

    def ask(self) -> "Array":
        """The next candidates, one a row."""
        import numpy as np

        self._steps = self.random.standard_normal((self.population, len(self.mean))) * np.sqrt(self.variance)
        candidates: Array = self.mean + self.sigma * self._steps
        return candidates

    def tell(self, scores: Sequence[float]) -> None:
        """Move towards the candidates with the highest scores."""
        import numpy as np

        self.generation += 1
        # Equal scores keep the order of their drawing, which is as good as any.
        best = self._steps[np.argsort(-np.asarray(scores), kind="stable")[: len(self.weights)]]
        step = self.weights @ best
        self.mean = self.mean + self.sigma * step
        pull = np.sqrt(self.sigma_rate * (2 - self.sigma_rate) * self.parents)
        self.sigma_path = (1 - self.sigma_rate) * self.sigma_path + pull * step / np.sqrt(self.variance)
        length = np.linalg.norm(self.sigma_path)
        warm = np.sqrt(1 - (1 - self.sigma_rate) ** (2 * self.generation))
        steady = float(length / warm < (1.4 + 2 / (len(step) + 1)) * self.expected)
        pull = np.sqrt(self.rate * (2 - self.rate) * self.parents)
        self.path = (1 - self.rate) * self.path + steady * pull * step
        kept = 1 - self.one - self.many + (1 - steady) * self.one * self.rate * (2 - self.rate)
        self.variance = kept * self.variance + self.one * self.path**2 + self.many * (self.weights @ best**2)
        self.sigma *= float(np.exp(self.sigma_rate / self.damping * (length / self.expected - 1)))
