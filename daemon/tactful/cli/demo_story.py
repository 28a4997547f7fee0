"""The running example of the DP-MemView paper (Figure 2), as the owner of the demo would tell it.

Decides the five memories and the questions. What is *not* here: the policy (`demo.yaml` in the
starter policies: five positions, slots health, food and finance, attributes diabetes and debt with
a cap of 2 each and three charges per cap), and what an answer costs (the daemon).

The questions are ordered so that the paper's situation appears: diabetes is used up while debt is
not, so food answers from its generic view while finance still releases a fresh one.
"""

from __future__ import annotations

STARTER = "demo"
APP = "meals"

MEMORIES: tuple[tuple[int, str, str], ...] = (
    (1, "health.condition", "I was diagnosed with type 2 diabetes last spring."),
    (2, "food.diet", "I keep my blood sugar steady, so I avoid sugary food."),
    (3, "food.groceries", "Money is short: I buy only what is on offer."),
    (4, "finance.accounts", "My account is overdrawn at the end of every month."),
    (5, "finance.bills", "I am three months behind on my credit card."),
)
"""Position, shelf, text."""

QUESTIONS: tuple[str, ...] = (
    "What is an affordable dinner for tonight?",
    "Which daily habits would be good for my health?",
    "Bills keep me awake: how do I sleep better, and which bill should I pay first?",
    "What can I cook for dinner tomorrow?",
    "Can you plan cheap meals for the week, and where do I begin with my budget?",
    "What could I have for breakfast?",
    "What exercise can I do today?",
    "How can I save more money?",
    "What is a fast lunch for tomorrow?",
    "Which bill comes first this month?",
)
"""What the owner tells the app, one after another."""
