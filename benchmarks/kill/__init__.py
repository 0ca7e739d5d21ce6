"""What a SIGKILL costs in money: the same movements under the same kills, ours and others."""
