"""Think: what a step costs under a plan, and the best plan. Never imports torch."""
