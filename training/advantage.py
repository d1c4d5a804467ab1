"""Advantages that leave a plan's length alone.

A right plan of one step is far easier to find by luck than one of two, so that early on the group's mean teaches
"write short plans" long before it teaches which worker fits which question, and with no long plans left there is
nothing to learn about them (training/README.md, runs d1, d9). Here each plan is compared with those of its group that
have its length. The advantages of every length sum to zero, so that workers and access are learnt and the lengths
stay as they were; a baseline that depends on a part of the action already written does not bias what comes after it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def within_lengths(
    rewards: "torch.Tensor", lengths: "torch.Tensor", tokens: "torch.Tensor", size: int
) -> "torch.Tensor":
    """Advantages [rows] from rewards [rows] (NaN: none) and plan lengths [rows], in groups of `size` rows.

    `tokens` [rows] are the completions' numbers of tokens. The loss is a mean over each completion's tokens, so that
    the word that decides a plan's length counts more in a short completion: the means here are weighted as the loss is,
    else lengths would drift with what else makes completions short. Divided by the group's deviation, as the paper's
    are. Zero where there is no reward, and where a plan has its length alone. What is no list of workers has length -1,
    and is compared with the whole group: there is nothing to protect.
    """
    reward, length = rewards.view(-1, size), lengths.view(-1, size)
    known = ~reward.isnan()
    filled, weight = reward.nan_to_num(0.0), known / tokens.view(-1, size)
    alike = (length[:, :, None] == length[:, None, :]) | (length < 0)[:, :, None]
    shares = alike * weight[:, None, :]
    mean = (shares @ filled[:, :, None]).squeeze(-1) / shares.sum(dim=-1).clamp(min=1e-9)
    centred = (filled - mean) * known
    count = known.sum(dim=1, keepdim=True).clamp(min=2)
    deviation = (centred.square().sum(dim=1, keepdim=True) / (count - 1)).sqrt()
    return (centred / (deviation + 1e-4)).flatten()
