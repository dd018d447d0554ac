"""Carries out the CronTrainingJobs of a cluster while this process leads."""
