import { Text, TextInput, UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { IconChevronDown, IconChevronRight, IconFile, IconFolder, IconFolderOpen, IconSearch } from "@tabler/icons-react";
import { useMemo, useRef, useState } from "react";

import { bytes, plural } from "@/lib/format";

import { type File, firstOpen, rowsOf } from "./file-tree";
import classes from "./files.module.css";

const ROW = 29;

type Props = { files: File[]; chosen: string | undefined; onChoose: (path: string) => void; label: string };

/** A tree of files, with sizes; any number of them. */
export function FileBrowser({ files, chosen, onChoose, label }: Props) {
  const [filter, setFilter] = useState("");
  const [open, setOpen] = useState(() => firstOpen(files, chosen));
  const rows = useMemo(() => rowsOf(files, open, filter), [files, open, filter]);
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({ count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => ROW, overscan: 12 });
  function toggle(path: string) {
    const next = new Set(open);
    if (!next.delete(path)) next.add(path);
    setOpen(next);
  }
  const total = files.reduce((sum, { size }) => sum + size, 0);
  return (
    <div className={classes.browser}>
      <div className={classes.filter}>
        <TextInput
          size="xs"
          type="search"
          aria-label={`Filter ${label}`}
          placeholder="Filter by name"
          leftSection={<IconSearch size={14} />}
          value={filter}
          onChange={(event) => setFilter(event.currentTarget.value)}
        />
        <Text size="xs" c="dimmed">
          {plural(files.length, "file")}, {bytes(total)}
        </Text>
      </div>
      <div ref={scroller} className={classes.scroller} style={{ height: Math.min(Math.max(rows.length, 4), 22) * ROW + 8 }}>
        <ul className={classes.list} style={{ height: list.getTotalSize() }} aria-label={label}>
          {list.getVirtualItems().map(({ index, start }) => {
            const { path, name, depth, isFolder, size, isLive } = rows[index]!;
            const isOpen = Boolean(filter) || open.has(path);
            const Icon = isFolder ? (isOpen ? IconFolderOpen : IconFolder) : IconFile;
            return (
              <li key={`${path}${isFolder ? "/" : ""}`} className={classes.item} style={{ transform: `translateY(${start}px)` }}>
                <UnstyledButton
                  className={classes.entry}
                  data-chosen={(!isFolder && path === chosen) || undefined}
                  style={{ paddingLeft: 8 + Math.min(depth, 12) * 15 }}
                  {...(isFolder ? { "aria-expanded": isOpen } : { "aria-current": path === chosen ? "true" : undefined })}
                  title={name}
                  onClick={() => (isFolder ? toggle(path) : onChoose(path))}
                >
                  <span className={classes.chevron} aria-hidden>
                    {isFolder && (isOpen ? <IconChevronDown size={13} /> : <IconChevronRight size={13} />)}
                  </span>
                  <Icon size={15} className={classes.icon} aria-hidden />
                  <span className={classes.name}>{name}</span>
                  <span className={classes.size}>
                    {isLive && "live · "}
                    {bytes(size)}
                  </span>
                </UnstyledButton>
              </li>
            );
          })}
        </ul>
        {!rows.length && (
          <Text size="sm" c="dimmed" p="sm">
            Nothing matches.
          </Text>
        )}
      </div>
    </div>
  );
}
