#!/usr/bin/env bash
# Puts oupn-edge into NVIDIA's root file system before it is flashed, so that the device records from its first boot on.
#
#   sudo firmware-config/l4t/apply.sh LINUX_FOR_TEGRA oupn-edge_VERSION_arm64.deb [--camera SOURCE] [--model FILE]
#                                     [--data-label LABEL] [--read-only]
#
# Run it after NVIDIA's own apply_binaries.sh and tools/l4t_create_default_user.sh (without which the first boot waits for a
# keyboard), and before flashing. LINUX_FOR_TEGRA is the folder that holds `rootfs`. The package is installed by the root file
# system's own dpkg (qemu-user-static must be on this machine); nothing outside rootfs is touched.
#   --camera SOURCE      where frames come from: any name that `oupn-edge --camera` understands
#   --model FILE         weights to start from; copied to /usr/local/share/oupn-edge, and read once by the device's program
#   --data-label LABEL   the disk of that label is mounted on /var/lib/oupn-edge, and must be
#   --read-only          the root is mounted read-only: only the data disk is ever written to (needs --data-label)
set -euo pipefail
die() { echo "apply: $*" >&2; exit 1; }
[ $# -ge 2 ] || die "usage: apply.sh LINUX_FOR_TEGRA PACKAGE.deb [--camera SOURCE] [--model FILE] [--data-label LABEL] [--read-only]"
root=$1/rootfs package=$2; shift 2
camera='' model='' label='' read_only=no
while [ $# -gt 0 ]; do
    case $1 in
    --camera) camera=${2:?--camera needs a name}; shift 2 ;;
    --model) model=${2:?--model needs a file}; shift 2 ;;
    --data-label) label=${2:?--data-label needs a name}; shift 2 ;;
    --read-only) read_only=yes; shift ;;
    *) die "unknown word \"$1\"" ;;
    esac
done
[ -d "$root/etc" ] || die "$root is no root file system; unpack NVIDIA's sample root file system there first"
[ -f "$package" ] || die "$package is not there; \`make jetson\` makes it"
[ -z "$model" ] || [ -f "$model" ] || die "$model is not there; --model takes a file that \`oupn-edge model info\` can read"
[ "$(id -u)" -eq 0 ] || die "please run as root: files in a root file system belong to it"
[ $read_only = no ] || [ -n "$label" ] || die "--read-only needs --data-label: recordings must go somewhere"
[[ $label =~ ^[A-Za-z0-9_-]*$ ]] || die "a label has letters, digits, - and _ only"
[[ $camera$model != *$'\n'* ]] || die "a name cannot have two lines"
emulator=$(command -v qemu-aarch64-static) || die "please install qemu-user-static"

install -m 755 "$emulator" "$root/usr/bin/oupn-apply-qemu"
cp "$package" "$root/tmp/oupn-edge.deb"
cleanup() { rm -f "$root/usr/bin/oupn-apply-qemu" "$root/tmp/oupn-edge.deb"; }
trap cleanup EXIT
# dpkg's own scripts run foreign programs too: that works where binfmt_misc knows qemu, and else is done by name.
if chroot "$root" /bin/true 2>/dev/null; then run=(chroot "$root"); else die "foreign programs do not run here; install binfmt-support and qemu-user-static"; fi
"${run[@]}" dpkg -i /tmp/oupn-edge.deb

# set_value NAME VALUE: the value in quotes, as systemd and the shell read it, so that no character of it means anything.
set_value() {
    local file=$root/etc/oupn-edge/environment quoted
    quoted=$(printf '%s' "$2" | sed 's/[\\"$`]/\\&/g')
    LINE="$1=\"$quoted\"" awk -v name="$1=" 'index($0, name) == 1 { print ENVIRON["LINE"]; next } { print }' "$file" >"$file.new"
    cat "$file.new" >"$file" # which keeps its owner and mode
    rm "$file.new"
}
add_line() { grep -qxF "$2" "$1" 2>/dev/null || echo "$2" >>"$1"; }
[ -z "$camera" ] || set_value CAMERA "$camera"
if [ -n "$model" ]; then
    # Not in /home, which the service does not see, nor in /var/lib/oupn-edge, which the data disk may hide.
    folder=/usr/local/share/oupn-edge
    name=$(basename "$model")
    install -d "$root$folder"
    install -m 644 "$model" "$root$folder/$name"
    # The card, where it is not inside.
    [ ! -f "${model%.*}.toml" ] || install -m 644 "${model%.*}.toml" "$root$folder/${name%.*}.toml"
    "${run[@]}" oupn-edge model info "$folder/$name" || die "the device's program cannot use $model"
    set_value MODEL "$folder/$name"
fi
if [ -n "$label" ]; then
    set_value DATA_LABEL "$label"
    # nofail: a missing disk must not keep the device from booting; check-disk then refuses to record, and says why.
    add_line "$root/etc/fstab" "LABEL=$label /var/lib/oupn-edge ext4 noatime,nofail,x-systemd.device-timeout=15s 0 2"
    mkdir -p "$root/var/lib/oupn-edge" "$root/etc/udev/rules.d"
    # A disk that is plugged in later starts the recording, which mounts it.
    echo "ACTION!=\"remove\", SUBSYSTEM==\"block\", ENV{ID_FS_LABEL}==\"$label\", TAG+=\"systemd\", ENV{SYSTEMD_WANTS}+=\"oupn-edge.service\"" \
        >"$root/etc/udev/rules.d/71-oupn-edge-data.rules"
fi
if [ $read_only = yes ]; then
    # The kernel's command line of L4T says rw; the remount at boot follows this line. Logs and other leftovers live in memory.
    sed -i -E 's|^([^#[:space:]]+[[:space:]]+/[[:space:]]+ext4[[:space:]]+)[^[:space:]]+|\1ro,noatime|' "$root/etc/fstab"
    grep -qE '^[^#]+[[:space:]]/[[:space:]]+ext4[[:space:]]+ro' "$root/etc/fstab" || die "no ext4 root in etc/fstab to make read-only"
    for folder in /tmp:1777 /var/tmp:1777 /var/log:755 /var/lib/systemd:755 /var/lib/NetworkManager:700; do
        # On a read-only root nobody can make a place to mount, and the boot would end in the emergency shell.
        mkdir -p "$root${folder%:*}"
        add_line "$root/etc/fstab" "tmpfs ${folder%:*} tmpfs nosuid,nodev,size=64m,mode=${folder#*:} 0 0"
    done
fi
echo "apply: oupn-edge $("${run[@]}" dpkg-query -W -f '${Version}' oupn-edge) is in $root"
