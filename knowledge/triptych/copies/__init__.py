"""What copies note in the settings of stores: purges to repeat, and copies that have not ended.

Whoever opens a store reads it, so it imports little; `triptych.replication` makes the copies.
"""
