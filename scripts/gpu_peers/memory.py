"""Memory as PyTorch moves it."""

F64 = 8
# Below it PyTorch's launches are what is measured.
LARGE = 1 << 30


def peers(torch):
    """torch's copy, sum, fill and triad for streams over memory by all units."""
    units = torch.cuda.get_device_properties(0).multi_processor_count

    def array(length):
        return torch.randn(length, dtype=torch.float64, device="cuda")

    def copy(to, source, **options):
        """One by one: what a graph makes of a copy is the driver's, which is slower than PyTorch."""
        def function():
            to.copy_(source, **options)
        function.captures = False
        return function

    def make(point):
        if point["operation"] != "stream" or point["units"] != units:
            return None
        if point["working_set"] < LARGE:
            return None
        arrays = {"read": 1, "write": 1, "copy": 2, "scale": 2, "add": 3, "triad": 3, "dot": 2}
        length = point["working_set"] // arrays[point["stream"]] // F64
        a = array(length)
        if point["stream"] == "read":
            return lambda: torch.sum(a)
        if point["stream"] == "write":
            return lambda: a.fill_(0.7)
        b = array(length)
        if point["stream"] == "copy":
            return copy(a, b)
        if point["stream"] == "scale":
            return lambda: torch.mul(b, 0.7, out=a)
        if point["stream"] == "dot":
            return lambda: torch.dot(a, b)
        c = array(length)
        if point["stream"] == "add":
            return lambda: torch.add(b, c, out=a)
        return lambda: torch.add(b, c, alpha=0.7, out=a)

    def transfer(point):
        ways = {"host_to_device_memcpy": (False, True), "device_to_host_memcpy": (True, False)}
        if point["operation"] != "transfer" or point["transfer"] not in ways:
            return None
        on_device = torch.empty(point["size"], dtype=torch.uint8, device="cuda")
        on_host = torch.empty(point["size"], dtype=torch.uint8,
                              pin_memory=point["host"] == "pinned")
        if point["transfer"] == "host_to_device_memcpy":
            return copy(on_device, on_host, non_blocking=True)
        return copy(on_host, on_device, non_blocking=True)

    return [("torch", make), ("torch copy_", transfer)]
