#!/usr/bin/env bash
# Puts oupn-edge into NVIDIA's root file system before it is flashed, so that the device records from its first boot on.
#
#   sudo firmware-config/l4t/apply.sh LINUX_FOR_TEGRA oupn-edge_VERSION_arm64.deb [--camera SOURCE] [--data-label LABEL] [--read-only]
#
# Run it after NVIDIA's own apply_binaries.sh and before flash.sh. LINUX_FOR_TEGRA is the folder that holds `rootfs`. The package is
# installed by the root file system's own dpkg (qemu-user-static must be on this machine); nothing outside rootfs is touched.
#   --data-label LABEL   the disk of that label is mounted on /var/lib/oupn-edge, and must be
#   --read-only          the root is mounted read-only: only the data disk is ever written to (needs --data-label)
set -euo pipefail
die() { echo "apply: $*" >&2; exit 1; }
[ $# -ge 2 ] || die "usage: apply.sh LINUX_FOR_TEGRA PACKAGE.deb [--camera SOURCE] [--data-label LABEL] [--read-only]"
root=$1/rootfs package=$2; shift 2
camera='' label='' read_only=no
while [ $# -gt 0 ]; do
    case $1 in
    --camera) camera=${2:?--camera needs a name}; shift 2 ;;
    --data-label) label=${2:?--data-label needs a name}; shift 2 ;;
    --read-only) read_only=yes; shift ;;
    *) die "unknown word \"$1\"" ;;
    esac
done
[ -d "$root/etc" ] || die "$root is no root file system; unpack NVIDIA's sample root file system there first"
[ -f "$package" ] || die "$package is not there; \`make jetson\` makes it"
[ "$(id -u)" -eq 0 ] || die "please run as root: files in a root file system belong to it"
[ $read_only = no ] || [ -n "$label" ] || die "--read-only needs --data-label: recordings must go somewhere"
[[ $label =~ ^[A-Za-z0-9_-]*$ ]] || die "a label has letters, digits, - and _ only"
emulator=$(command -v qemu-aarch64-static) || die "please install qemu-user-static"

install -m 755 "$emulator" "$root/usr/bin/oupn-apply-qemu"
cp "$package" "$root/tmp/oupn-edge.deb"
cleanup() { rm -f "$root/usr/bin/oupn-apply-qemu" "$root/tmp/oupn-edge.deb"; }
trap cleanup EXIT
# dpkg's own scripts run foreign programs too: that works where binfmt_misc knows qemu, and else is done by name.
if chroot "$root" /bin/true 2>/dev/null; then run=(chroot "$root"); else die "foreign programs do not run here; install binfmt-support and qemu-user-static"; fi
"${run[@]}" dpkg -i /tmp/oupn-edge.deb

set_value() { sed -i "s|^$1=.*|$1=$2|" "$root/etc/oupn-edge/environment"; }
[ -z "$camera" ] || set_value CAMERA "${camera//|/\\|}"
if [ -n "$label" ]; then
    set_value DATA_LABEL "$label"
    # nofail: a missing disk must not keep the device from booting; first-boot then refuses to record, and says why.
    line="LABEL=$label /var/lib/oupn-edge ext4 noatime,nofail,x-systemd.device-timeout=15s 0 2"
    grep -qxF "$line" "$root/etc/fstab" 2>/dev/null || echo "$line" >>"$root/etc/fstab"
    mkdir -p "$root/var/lib/oupn-edge"
fi
if [ $read_only = yes ]; then
    # The kernel's command line of L4T says rw; the remount at boot follows this line. Logs and other leftovers live in memory.
    sed -i -E 's|^([^#[:space:]]+[[:space:]]+/[[:space:]]+ext4[[:space:]]+)[^[:space:]]+|\1ro,noatime|' "$root/etc/fstab"
    grep -qE '^[^#]+[[:space:]]/[[:space:]]+ext4[[:space:]]+ro' "$root/etc/fstab" || die "no ext4 root in etc/fstab to make read-only"
    for folder in /tmp /var/tmp /var/log /var/lib/systemd /var/lib/NetworkManager; do
        line="tmpfs $folder tmpfs nosuid,nodev,size=64m 0 0"
        grep -qxF "$line" "$root/etc/fstab" || echo "$line" >>"$root/etc/fstab"
    done
fi
echo "apply: oupn-edge $(chroot "$root" dpkg-query -W -f '${Version}' oupn-edge) is in $root"
