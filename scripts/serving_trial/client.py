"""A client of llama.cpp's server that keeps when each token arrived."""

import http.client
import json
import threading
import time
import urllib.parse


class Server:
    def __init__(self, address):
        parts = urllib.parse.urlsplit(address)
        self.host, self.port = parts.hostname, parts.port

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=600)

    def post(self, path, body):
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text}")
        return json.loads(text)

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                connection = self.connect()
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise RuntimeError("the server does not become ready")

    def slot(self, slot, action, name):
        return self.post(f"/slots/{slot}?action={action}", {"filename": name})

    def complete(self, prompt, tokens, slot, reuse):
        """One request: seconds from sending to each token, and the engine's own timings."""
        body = {
            "prompt": prompt,
            "n_predict": tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "cache_prompt": reuse,
            "id_slot": slot,
            "stream": True,
        }
        connection = self.connect()
        text = json.dumps(body)
        sent = time.perf_counter()
        connection.request("POST", "/completion", text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"/completion: {answer.status} {answer.read().decode()}")
        arrived, last = [], None
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            now = time.perf_counter()
            last = json.loads(line[6:])
            if not last.get("stop"):
                arrived.append(now)
        connection.close()
        timings = last["timings"]
        if len(arrived) != tokens or timings["predicted_n"] != tokens:
            raise RuntimeError(f"{tokens} tokens asked, {len(arrived)} arrived: {timings}")
        return {
            "sent": sent,
            "arrived": arrived,
            "prompt_tokens": timings["prompt_n"],
            "prompt_seconds": timings["prompt_ms"] / 1e3,
            "answer_seconds": timings["predicted_ms"] / 1e3,
        }

    def together(self, prompt, tokens, slots, reuse):
        """The same request on each slot, sent at once."""
        results, faults = [None] * len(slots), []

        def one(index):
            try:
                results[index] = self.complete(prompt, tokens, slots[index], reuse)
            except (RuntimeError, OSError) as fault:
                faults.append(fault)

        threads = [threading.Thread(target=one, args=(index,)) for index in range(len(slots))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]
        return results
