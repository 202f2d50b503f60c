"""Data sets that everybody knows, by the digests of their files as they were published.

The MD5 of the compressed files of MNIST and Fashion-MNIST, and of the python batches of CIFAR, are those by which
torchvision checks its downloads. The SHA-256 of Fashion-MNIST's files are of the contents that Debian ships. The MD5 of
CIFAR-10's test images is of the array [10000, 32, 32, 3] that torchvision makes of them.
"""

import hashlib

#: A file, or its content, by its digest.
_FILES = {
    "9fb629c4189551a2d022fa330f9573f3": "MNIST test images",
    "ec29112dd5afa0611ce80d1b7f02629c": "MNIST test labels",
    "f68b3c2dcbeaaa9fbdd348bbdeb94873": "MNIST training images",
    "d53e105ee54ea40749a09fcbcd1e9432": "MNIST training labels",
    "bef4ecab320f06d8554ea6380940ec79": "Fashion-MNIST test images",
    "bb300cfdad3c16e7a12a480ee83cd310": "Fashion-MNIST test labels",
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d": "Fashion-MNIST training images",
    "25c81989df183df01b3e8a0aad5dffbe": "Fashion-MNIST training labels",
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b": "Fashion-MNIST test images",
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34": "Fashion-MNIST test labels",
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888": "Fashion-MNIST training images",
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9": "Fashion-MNIST training labels",
    "40351d587109b95175f43aff81a1287e": "CIFAR-10 test_batch",
    "c99cafc152244af753f735de768cd75f": "CIFAR-10 data_batch_1",
    "d4bba439e000b95fd0a9bffe97cbabec": "CIFAR-10 data_batch_2",
    "54ebc095f3ab1f0389bbae665268c751": "CIFAR-10 data_batch_3",
    "634d18415352ddfa80567beed471001a": "CIFAR-10 data_batch_4",
    "482c414d41f54cd18b22e5b47cb7c3cb": "CIFAR-10 data_batch_5",
    "f0ef6b0ae62326f3e7ffdfab6717acfc": "CIFAR-100 test",
    "16019d7e3df5f24257cddd939b257f8d": "CIFAR-100 train",
    "6d2714505047e13831cd876923568712": "CIFAR-10 test images",
}


def published(*contents: bytes) -> str | None:
    """What one of these contents is, if it is a published one: a file as it is, or what was compressed in it."""
    digests = [kind(each).hexdigest() for each in contents for kind in (_md5, hashlib.sha256)]
    return next((_FILES[digest] for digest in digests if digest in _FILES), None)


def _md5(content: bytes) -> "hashlib._Hash":
    return hashlib.md5(content, usedforsecurity=False)
