"""The quantities that the chapter records. `stored`, `capacity` and `over` count transitions; `sampler` is a name that
`buffers.sampler` accepts, or "gather"."""

from rlrepro.evidence import Quantity

RECORDS = (
    Quantity("sample", "s", ("release", "stored", "capacity", "storage", "sampler")),  # storage: "cpu" or "cuda"
    Quantity("page_faults", "count", ("release", "stored", "capacity"), zero=True),  # of one sample by episode id
    Quantity("done_ratio", "ratio", ("release", "stored", "capacity")),
    Quantity("cache_ratio", "ratio", ("release", "stored", "capacity")),
    Quantity("ours_ratio", "ratio", ("release", "stored", "capacity")),
    Quantity("floor_ratio", "ratio", ("release", "stored", "capacity")),
    Quantity("moved", "B", ("release", "dtype", "stored")),  # dtype: of the episode ids
    Quantity("moved_in", "s", ("release", "dtype", "stored")),
    Quantity("flags_in", "s", ("stored",)),  # finding the flags that are set, alone
    Quantity("moved_predicted", "B", ("release", "dtype", "stored")),
    Quantity("moved_of_predicted", "ratio", ("release", "dtype", "stored")),
    Quantity("heeds_end_key", "yes/no", ("release",)),
    Quantity("release_ratio", "ratio", ("release", "stored")),  # BUGGY over `release`
    Quantity("cached_ratio", "ratio", ("stored",)),  # torchrl's cached sampler over ours, with nothing written
    Quantity("online", "s", ("release", "stored", "capacity", "sampler")),
    Quantity("online_ours_ratio", "ratio", ("release", "stored", "capacity", "sampler")),
    Quantity("online_alone", "s", ("release", "stored", "capacity", "sampler")),  # each sampler measured alone
    Quantity("online_on_card", "s", ("release", "stored", "capacity", "storage", "sampler")),
    Quantity("online_growth", "ratio", ("stored", "over")),  # online_alone with `stored` over that with `over`
    Quantity("timeline", "s", ("release", "loop", "sampler", "stored")),  # loop: "still" or "online"
    Quantity("index_bytes", "B", ("stored",)),  # per trajectory
)
