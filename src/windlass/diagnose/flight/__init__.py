"""Flight recorder dumps and rank status files of a job that hangs: which operation waits for which rank."""
