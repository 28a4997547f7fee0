"""What happens that apps are told of, and what apps tell their owner; never caused by memory."""
