/** Views of the table with a name: filters, sort and columns, kept in this browser. */
import { Button, CloseButton, Group, Menu, Modal, Text, TextInput } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { IconBookmark, IconPlus } from "@tabler/icons-react";
import { useState } from "react";

import { parseSearch, type Search, writeSearch } from "@/lib/search";

type Props = { workspace: string; search: Search; onOpen: (search: Search) => void };

export function ViewsMenu({ workspace, search, onOpen }: Props) {
  const [views, setViews] = useLocalStorage<Record<string, string>>({ key: `windlass.views.${workspace}`, defaultValue: {} });
  const [name, setName] = useState<string | null>(null);
  const now = writeSearch(search);
  const names = Object.keys(views).sort();
  const current = names.find((each) => views[each] === now);
  function save() {
    if (!name?.trim()) return;
    setViews({ ...views, [name.trim()]: now });
    setName(null);
  }
  function remove(gone: string) {
    setViews(Object.fromEntries(Object.entries(views).filter(([each]) => each !== gone)));
  }
  return (
    <>
      <Menu position="bottom-end" width={240}>
        <Menu.Target>
          <Button variant="default" leftSection={<IconBookmark size={15} />}>
            {current ?? "Views"}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {names.map((each) => (
            <Menu.Item key={each} onClick={() => onOpen(parseSearch(views[each]!))} aria-current={each === current || undefined}>
              {each}
            </Menu.Item>
          ))}
          {!names.length && <Menu.Label>A view keeps filters, sort and columns under a name.</Menu.Label>}
          <Menu.Divider />
          <Menu.Item leftSection={<IconPlus size={14} />} onClick={() => setName(current ?? "")} closeMenuOnClick>
            Save this view …
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Modal opened={name !== null} onClose={() => setName(null)} title="Save this view">
        <form onSubmit={(event) => (event.preventDefault(), save())}>
          <TextInput label="Name" value={name ?? ""} onChange={(event) => setName(event.currentTarget.value)} maxLength={60} data-autofocus />
          {names.length > 0 && (
            <>
              <Text size="xs" c="dimmed" mt="sm">
                Saved views
              </Text>
              {names.map((each) => (
                <Group key={each} justify="space-between" wrap="nowrap">
                  <Text size="sm" truncate>
                    {each}
                  </Text>
                  <CloseButton size="sm" aria-label={`Remove the view ${each}`} onClick={() => remove(each)} />
                </Group>
              ))}
            </>
          )}
          <Group justify="flex-end" mt="md">
            <Button type="submit" disabled={!name?.trim()}>
              {name?.trim() && name.trim() in views ? "Replace" : "Save"}
            </Button>
          </Group>
        </form>
      </Modal>
    </>
  );
}
