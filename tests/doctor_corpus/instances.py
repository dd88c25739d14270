"""Objects that processes are given, or create themselves."""

TROUBLED = {
    "a learner that is passed to a subclass of Process": (
        {"PT001"},
        {},
        """
        import torch
        from multiprocessing import Process
        class Pilot:
            def improve(self):
                self.loss().backward()
        class Worker(Process):
            def __init__(self, pilot):
                super().__init__()
                self.pilot = pilot
            def run(self):
                self.pilot.improve()
        pilot = Pilot()
        workers = [Worker(pilot) for k in range(4)]
        """,
    ),
    "a learner that is passed to a function": (
        {"PT001"},
        {},
        """
        import torch
        from multiprocessing import Process
        class Pilot:
            def improve(self):
                self.loss().backward()
        def work(pilot):
            pilot.improve()
        def main():
            pilot = Pilot()
            arguments = (pilot,)
            workers = [Process(target=work, args=arguments) for k in range(4)]
        """,
    ),
    "a worker that the process creates": (
        {"PT001"},
        {},
        """
        import torch
        from multiprocessing import Process
        class Slave:
            def run(self):
                self.loss().backward()
        def work():
            slave = Slave()
            slave.run()
        workers = [Process(target=work) for k in range(4)]
        """,
    ),
    "a method of workers in a list": (
        {"PT001"},
        {},
        """
        import torch
        from multiprocessing import Process
        class Slave:
            def run(self):
                self.loss().backward()
        slaves = [Slave() for k in range(4)]
        for slave in slaves:
            Process(target=slave.run).start()
        """,
    ),
}

INNOCENT = {
    "a learner that is passed but does not learn": (
        {},
        """
        import torch
        from multiprocessing import Process
        class Pilot:
            def __init__(self):
                self.loss().backward()
            def improve(self):
                self.loss().backward()
            def close(self):
                print("closed")
        def work(pilot):
            pilot.close()
        pilot = Pilot()
        workers = [Process(target=work, args=(pilot,)) for k in range(4)]
        """,
    ),
}
