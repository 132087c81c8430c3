/** Paths of files as a tree of folders. */

export type File = { path: string; size: number; isLive?: boolean };

export type TreeRow = {
  path: string;
  name: string;
  depth: number;
  isFolder: boolean;
  /** Of a folder: the sizes of all files below it. */
  size: number;
  count: number;
  isLive: boolean;
};

type Folder = { folders: Map<string, Folder>; files: File[]; size: number; count: number };

const empty = (): Folder => ({ folders: new Map(), files: [], size: 0, count: 0 });

function treeOf(files: readonly File[]): Folder {
  const root = empty();
  for (const file of files) {
    let folder = root;
    const parts = file.path.split("/");
    for (const part of parts.slice(0, -1)) {
      let next = folder.folders.get(part);
      if (!next) folder.folders.set(part, (next = empty()));
      next.size += file.size;
      next.count++;
      folder = next;
    }
    folder.files.push(file);
  }
  return root;
}

const compare = (a: string, b: string) => a.localeCompare(b, "en", { numeric: true });

/** The rows of the tree that are shown: what is in open folders; with a filter, all that match it. */
export function rowsOf(files: readonly File[], open: ReadonlySet<string>, filter = ""): TreeRow[] {
  const text = filter.trim().toLowerCase();
  const shown = text ? files.filter(({ path }) => path.toLowerCase().includes(text)) : files;
  const rows: TreeRow[] = [];
  function add(folder: Folder, prefix: string, depth: number) {
    for (const [name, inner] of [...folder.folders].sort(([a], [b]) => compare(a, b))) {
      const path = prefix + name;
      rows.push({ path, name, depth, isFolder: true, size: inner.size, count: inner.count, isLive: false });
      if (text || open.has(path)) add(inner, `${path}/`, depth + 1);
    }
    for (const { path, size, isLive } of folder.files.sort((a, b) => compare(a.path, b.path))) {
      rows.push({ path, name: path.slice(prefix.length), depth, isFolder: false, size, count: 1, isLive: isLive ?? false });
    }
  }
  add(treeOf(shown), "", 0);
  return rows;
}

/** The folders that are open at first: those of outputs, and all of them if there are few files. */
export function firstOpen(files: readonly File[], chosen?: string): Set<string> {
  const few = files.length <= 40;
  const paths = files.filter(({ path }) => few || path === chosen || path.split("/").length === 2).map(({ path }) => path);
  return new Set(paths.flatMap((path) => path.split("/").slice(0, -1).map((_, index, parts) => parts.slice(0, index + 1).join("/"))));
}
