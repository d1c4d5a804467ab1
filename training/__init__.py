"""The Conductor's training: questions, cold start, rewards, GRPO, promotion. Not part of the wheel."""
