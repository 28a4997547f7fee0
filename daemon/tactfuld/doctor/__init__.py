"""Looking a profile over: gathering facts about it, and judging each of them."""
