"""What a replay found, for people (`terminal`), programs (`summary`) and tables (`verdict_files`)."""
