"""What every answer has in common: headers, who may write, times, errors in words."""
