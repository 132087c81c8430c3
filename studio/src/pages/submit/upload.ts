/** A folder of this computer as a snapshot: which files go, their digests, and the upload of those the server lacks. */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import ignore from "ignore";

import { ApiError, api, data, request, type Schemas } from "@/api/client";

export type SourceFile = { path: string; file: File };
export type Manifest = Schemas["ManifestFile"][];

export const MOST_FILES = 2000;
export const MOST_BYTES = 300 * 2 ** 20;
const BATCH_BYTES = 8 * 2 ** 20;
const IGNORE_FILES = [".amlignore", ".gitignore"];
// As the command line leaves out: caches, repositories, and what runs wrote.
const NEVER = [".git/", "__pycache__/", ".ipynb_checkpoints/", ".azureml/", ".windlass/", "node_modules/", ".venv/", ".DS_Store"];

/** The files of a chosen folder without the ignored ones. Paths begin below the folder. */
export async function sourceFiles(chosen: File[]): Promise<SourceFile[]> {
  const all = chosen.map((file) => ({ path: file.webkitRelativePath.split("/").slice(1).join("/") || file.name, file }));
  const rules = ignore().add(NEVER);
  const found = IGNORE_FILES.map((name) => all.find(({ path }) => path === name)).find(Boolean);
  if (found) rules.add(await found.file.text());
  const environments = all.filter(({ path }) => path.endsWith("/pyvenv.cfg")).map(({ path }) => path.slice(0, -"pyvenv.cfg".length));
  return all
    .filter(({ path }) => !rules.ignores(path) && !environments.some((folder) => path.startsWith(folder)))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Refuses what exceeds the limits of a snapshot. */
export function checkSize(files: SourceFile[]): void {
  const size = files.reduce((sum, { file }) => sum + file.size, 0);
  if (files.length > MOST_FILES || size > MOST_BYTES) {
    const biggest = [...files].sort((a, b) => b.file.size - a.file.size).slice(0, 3).map(({ path }) => path);
    throw new Error(
      `The folder has ${files.length} files and ${Math.round(size / 2 ** 20)} MB; a snapshot has at most ${MOST_FILES} files ` +
        `and ${MOST_BYTES / 2 ** 20} MB. Name what is data in .amlignore (the biggest: ${biggest.join(", ")}).`,
    );
  }
}

type Progress = (done: number, all: number) => void;

/** Digests the files, and uploads those that the server does not have. */
export async function upload(workspace: string, files: SourceFile[], progress: Progress, signal: AbortSignal): Promise<Manifest> {
  const manifest: Manifest = [];
  const byDigest = new Map<string, File>();
  for (const { path, file } of files) {
    signal.throwIfAborted();
    const digest = await digestOf(file);
    byDigest.set(digest, file);
    manifest.push({ path, digest, size: file.size, executable: false });
  }
  if (!manifest.length) return manifest;
  const { missing } = await data(
    api.POST("/api/v1/workspaces/{workspace}/blobs/missing", {
      params: { path: { workspace } },
      body: { digests: [...byDigest.keys()] },
      signal,
    }),
  );
  const all = missing.reduce((sum, digest) => sum + byDigest.get(digest)!.size, 0);
  let done = 0;
  for (const batch of batches(missing, byDigest)) {
    progress(done, all);
    const body = new Blob(batch.flatMap((digest) => framed(digest, byDigest.get(digest)!)));
    await request(`api/v1/workspaces/${encodeURIComponent(workspace)}/blobs`, {
      method: "POST",
      headers: { "content-type": "application/octet-stream" },
      body,
      signal,
    });
    done += batch.reduce((sum, digest) => sum + byDigest.get(digest)!.size, 0);
  }
  progress(all, all);
  return manifest;
}

async function digestOf(file: File): Promise<string> {
  const hash = sha256.create();
  const reader = file.stream().getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return bytesToHex(hash.digest());
      hash.update(value);
    }
  } catch {
    throw new ApiError(0, "unreadable", `${file.name} cannot be read any more.`, "It was changed or removed: choose the folder again.");
  }
}

function* batches(digests: string[], files: Map<string, File>): Generator<string[]> {
  let batch: string[] = [];
  let size = 0;
  for (const digest of digests) {
    const next = files.get(digest)!.size;
    if (batch.length && size + next > BATCH_BYTES) {
      yield batch;
      [batch, size] = [[], 0];
    }
    batch.push(digest);
    size += next;
  }
  if (batch.length) yield batch;
}

/** The form of one file in a request with many: digest, length as 8 bytes, bytes. */
function framed(digest: string, file: File): BlobPart[] {
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(file.size));
  return [digest, length.buffer, file];
}
