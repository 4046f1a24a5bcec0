"""A plain server of FastAPI and CTranslate2 with dynamic batching, to compare ours with.

    python benchmarks/serve_peer.py EXPORT --port 8300 --inter-threads 2 --intra-threads 1

EXPORT is what `dragoman export --to ctranslate2` writes. POST /translate {"text": ...} gives
{"translation": ...}; GET /ready tells when it is up. A batch is what arrives within 5 ms of its first
sentence, 32 at most. While all workers are busy, sentences wait and the next batch grows.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import ctranslate2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentencepiece import SentencePieceProcessor

LARGEST_BATCH = 32  # sentences
LONGEST_WAIT = 0.005  # seconds
Waiting = tuple[list[str], asyncio.Future[list[str]]]


class Asked(BaseModel):
    """A request: one sentence."""

    text: str


class Batcher:
    """It collects sentences, and translates them together in as many threads as CTranslate2 has workers."""

    def __init__(self, translator: ctranslate2.Translator, workers: int, beam_size: int) -> None:
        self._translator, self._workers, self._beam_size = translator, workers, beam_size
        self._waiting: asyncio.Queue[Waiting] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(workers)

    async def translate(self, pieces: list[str]) -> list[str]:
        """The translation's pieces."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((pieces, done))
        return await done

    async def run(self) -> None:
        """Translate batches until cancelled."""
        loop, free, running = asyncio.get_running_loop(), asyncio.Semaphore(self._workers), set()
        while True:
            await free.acquire()
            batch = await self._collect()
            found = loop.run_in_executor(self._threads, self._search, [pieces for pieces, _ in batch])
            running.add(found)
            found.add_done_callback(
                lambda found, batch=batch: (free.release(), running.discard(found), answer(batch, found))
            )

    async def _collect(self) -> list[Waiting]:
        batch = [await self._waiting.get()]
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                while len(batch) < LARGEST_BATCH:
                    batch.append(await self._waiting.get())
        except TimeoutError:
            pass
        return batch

    def _search(self, sources: list[list[str]]) -> list[list[str]]:
        """The best translation of each source. All workers take a part."""
        found = self._translator.translate_batch(
            sources,
            beam_size=self._beam_size,
            max_batch_size=-(-len(sources) // self._workers),
        )
        return [one.hypotheses[0] for one in found]


def answer(batch: list[Waiting], found: asyncio.Future[list[list[str]]]) -> None:
    """Give each of the batch its translation, or the error of all."""
    if found.cancelled():
        return
    error = found.exception()
    for number, (_, done) in enumerate(batch):
        if not done.done():
            done.set_exception(error) if error else done.set_result(found.result()[number])


def make_app(folder: Path, inter_threads: int, intra_threads: int, beam_size: int) -> FastAPI:
    """The application over an export."""
    source, target = (
        SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target")
    )
    translator = ctranslate2.Translator(
        str(folder), compute_type="int8", inter_threads=inter_threads, intra_threads=intra_threads
    )
    batcher = Batcher(translator, inter_threads, beam_size)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = asyncio.ensure_future(batcher.run())
        yield
        running.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/translate")
    async def translate(asked: Asked) -> dict[str, str]:
        pieces = await batcher.translate(source.encode(asked.text, out_type=str))
        return {"translation": target.decode(pieces)}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--inter-threads", type=int, default=1)
    parser.add_argument("--intra-threads", type=int, default=0)
    parser.add_argument("--beam-size", type=int, default=4)
    arguments = parser.parse_args()
    app = make_app(arguments.export, arguments.inter_threads, arguments.intra_threads, arguments.beam_size)
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
