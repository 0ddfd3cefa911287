"""The ranking: from beliefs and directives to an order of the queue, with a reason for every place and
move."""
