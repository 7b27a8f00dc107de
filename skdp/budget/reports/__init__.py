"""What a ledger and a certificate say, to be read by people."""
