"""Training RouterDC: two contrastive losses over questions and workers (Chen et al. 2024).

Loss 1: each of the best K = 3 workers with a score above 0 against the 3 worst, of which those above 0.5 count as
good after all and are left out. Loss 2, weight 1: questions of one cluster attract, H = 3 of other clusters repel; the
clusters are 8 by k-means over a t-SNE of the encoder's output. AdamW, 1000 steps. The learning rate is
higher than the paper's 5e-5, which moves a whole transformer: here a linear map and the workers' vectors learn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from conductor_plugin.planners.encoder import make_encoder
from conductor_plugin.planners.routerdc import RouterDCModel
from conductor_plugin.planners.saved import fingerprints
from conductor_plugin.planners.threads import one_thread
from conductor_plugin.pool import Pool

if TYPE_CHECKING:
    import numpy as np

BEST = WORST = 3
REPELLED = 3
CLUSTERS = 8
DIMENSION = 64
LEARNING_RATE = 5e-3
BATCH = 32


def new_router(pool: Pool, questions: Sequence[str], encoder: str = "tfidf", seed: int = 0) -> RouterDCModel:
    """An untrained router: a random map and random vectors. The encoder `tfidf` is fitted on the questions."""
    import numpy as np

    coder = make_encoder(encoder, questions)
    random = np.random.default_rng(seed)
    size = coder.encode(["x"]).shape[1]
    projection = random.standard_normal((size, DIMENSION)) / size**0.5
    return RouterDCModel(coder, fingerprints(pool), projection, random.standard_normal((len(pool.workers), DIMENSION)))


def train_routerdc(
    start: RouterDCModel,
    questions: Sequence[str],
    scores: Sequence[Sequence[float]],
    *,
    steps: int = 1000,
    seed: int = 0,
) -> RouterDCModel:
    """The router after training. `scores` has each worker's mean grade (0 to 1) in a row for each question."""
    with one_thread():
        return _train(start, questions, scores, steps, seed)


def _train(
    start: RouterDCModel, questions: Sequence[str], scores: Sequence[Sequence[float]], steps: int, seed: int
) -> RouterDCModel:
    import torch

    rows = torch.from_numpy(start.encoder.encode(questions)).float()
    labels = torch.tensor(scores, dtype=torch.float32)
    clusters = torch.from_numpy(cluster(rows.numpy(), seed))
    projection = torch.tensor(start.projection, dtype=torch.float32, requires_grad=True)
    vectors = torch.tensor(start.vectors, dtype=torch.float32, requires_grad=True)
    optimiser = torch.optim.AdamW([projection, vectors], lr=LEARNING_RATE)
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randint(len(rows), (BATCH,), generator=random)
        projected = torch.nn.functional.normalize(rows @ projection, dim=-1)
        cosines = projected[batch] @ torch.nn.functional.normalize(vectors, dim=-1).T
        loss = _workers_loss(cosines, labels[batch]) + _questions_loss(projected, clusters, batch, random)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return RouterDCModel(start.encoder, start.workers, projection.detach().numpy(), vectors.detach().numpy())


def _workers_loss(cosines: Any, labels: Any) -> Any:
    """Loss 1 over a batch."""
    import torch

    count = labels.shape[1]
    order = labels.argsort(dim=1, descending=True, stable=True)
    worst = order[:, -min(WORST, count) :]
    wrong = torch.gather(cosines, 1, worst).masked_fill(torch.gather(labels, 1, worst) > 0.5, float("-inf"))
    terms = []
    for rank in range(min(BEST, count)):
        good = order[:, rank : rank + 1]
        right = torch.gather(cosines, 1, good)
        others = wrong.masked_fill(worst == good, float("-inf"))  # nobody is compared with themselves
        term = torch.logsumexp(torch.cat([right, others], 1), 1) - right[:, 0]
        terms.append(term * (torch.gather(labels, 1, good)[:, 0] > 0))
    return torch.stack(terms).sum(0).mean()


def _questions_loss(projected: Any, clusters: Any, batch: Any, random: Any) -> Any:
    """Loss 2 over a batch: one question of the same cluster against H of other clusters."""
    import torch

    same = (clusters[batch][:, None] == clusters[None, :]).float()
    near = torch.multinomial(same, 1, generator=random)
    other = 1 - same
    if bool((other.sum(1) == 0).any()):  # all questions are one cluster
        return torch.zeros(())
    far = torch.multinomial(other, REPELLED, replacement=True, generator=random)
    cosines = (projected[torch.cat([near, far], 1)] * projected[batch][:, None]).sum(-1)
    return (torch.logsumexp(cosines, 1) - cosines[:, 0]).mean()


def cluster(rows: "np.ndarray[Any, Any]", seed: int) -> "np.ndarray[Any, Any]":
    """Each question's cluster: k-means over a t-SNE in 5 dimensions."""
    from sklearn.cluster import KMeans
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(rows) - 1) / 3)
    # More than 3 dimensions need the exact method: quadratic, seconds for the paper's 500 questions.
    placed = TSNE(
        n_components=5, method="exact", perplexity=perplexity, random_state=seed, init="random"
    ).fit_transform(rows)
    labels: np.ndarray[Any, Any] = KMeans(min(CLUSTERS, len(rows)), random_state=seed, n_init=4).fit_predict(placed)
    return labels
