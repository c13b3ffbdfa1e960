-- The events of one run by their kind: alerts, phases, and readings of the machine, of which a long run has many.
CREATE INDEX events_by_kind ON events (run_key, kind, id);
